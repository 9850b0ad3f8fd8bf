"""Replies and dead letters that are sent to another channel of the same directory, by `ref`: without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from knative.cloudevents.http_binding import REPLY_DEPTH
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

REPLY = ("ce-specversion: 1.0", "ce-id: the-reply", "ce-source: /answer", "ce-type: t")


def _ready(installation: Installation, name: str) -> tuple[str, str]:
    for condition in installation.status("Subscription", name).get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return condition["status"], condition.get("reason", "")
    return "", ""


def test_ref_to_a_channel_is_followed_to_its_subscribers(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    orders = Installation(kafka.bootstrap, tmp_path)
    stock = orders.beside("stock")
    channel = stock.resources.channel
    ref: dict[str, Any] = {
        "ref": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": channel}
    }
    with ScriptedSubscriber() as subscriber:
        enrich = Wanted("enrich", subscriber.script("/enrich", says(200, b"x", *REPLY)), reply=ref)
        dying = Wanted("dying", subscriber.script("/dying", says(400)), delivery={"retry": 0, "deadLetterSink": ref})
        keeper = Wanted("keeper", subscriber.script("/keeper", says(202)))
        orders.write([enrich, dying])
        with orders.worker("ingress", controller=False) as ingress:
            base = f"http://127.0.0.1:{ingress.port}"
            with orders.worker(env={"PENSTOCK_INGRESS_URL": base}) as worker:
                worker.wait_ready()
                ingress.wait_ready()
                missing = [("False", "ReplyNotResolved"), ("False", "DeadLetterSinkNotResolved")]
                names = [enrich.name, dying.name]
                wait_until("what is missing is said", lambda: [_ready(orders, name) for name in names] == missing, 180)
                stock.write([keeper])
                orders.wait_subscribers(worker, 2)
                stock.wait_subscribers(worker, 1)
                assert stock.status("KafkaChannel", channel)["status"]["address"]["url"] == stock.url(ingress)
                target = f"/channels/{NAMESPACE}/{orders.resources.channel}"
                assert post(ingress.port, target, "the-event").status == 202
                wait_until("both are at the other channel", lambda: len(subscriber.requests("/keeper")) >= 2, 180)
                assert worker.terminate() == 0, worker.tail()
            assert ingress.terminate() == 0, ingress.tail()
        came = {request.attributes["id"]: request.attributes for request in subscriber.requests("/keeper")}
    assert set(came) == {"the-reply", "the-event"}
    assert came["the-event"]["knativeerrorcode"] == "400"


def test_loop_over_two_channels_ends_as_a_dead_letter(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """One way by the address of a channel as subscriber, the way back by a `ref` as reply."""
    orders = Installation(kafka.bootstrap, tmp_path)
    stock = orders.beside("stock")
    back: dict[str, Any] = {
        "ref": {
            "apiVersion": "messaging.knative.dev/v1beta1",
            "kind": "KafkaChannel",
            "name": orders.resources.channel,
        }
    }

    def stored(topic: str) -> list[tuple[str, str]]:
        messages = reader.records(orders.bootstrap, topic)
        return [(reader.header(each, "ce_id"), reader.header(each, REPLY_DEPTH)) for each in messages]

    with ScriptedSubscriber() as subscriber, orders.worker("ingress", controller=False) as ingress:
        orders.write([Wanted("there", stock.url(ingress))])
        stock.write([Wanted("back", subscriber.script("/back", says(200, b"x", *REPLY)), reply=back)])
        env = {"PENSTOCK_INGRESS_URL": f"http://127.0.0.1:{ingress.port}", "PENSTOCK_REPLY_DEPTH_MAX": "3"}
        with orders.worker(env=env) as worker:
            worker.wait_ready()
            ingress.wait_ready()
            orders.wait_subscribers(worker, 1)
            stock.wait_subscribers(worker, 1)
            assert post(ingress.port, orders.resources.path, "the-event").status == 202
            wait_until("the chain is at its end", lambda: len(stored(stock.resources.dlq_topic)) == 1, 180)
            orders.wait_settled(["there"], 180)
            stock.wait_settled(["back"], 180)
    assert stored(orders.resources.topic) == [("the-event", ""), ("the-reply", "2")]
    assert stored(stock.resources.topic) == [("the-event", "1"), ("the-reply", "3")]
    assert stored(orders.resources.dlq_topic) == []
    (letter,) = reader.records(orders.bootstrap, stock.resources.dlq_topic)
    assert (reader.header(letter, "ce_id"), reader.header(letter, "ce_knativeerrorcode")) == ("the-reply", "508")
    assert reader.header(letter, "ce_knativeerrordest") == orders.url(ingress)
