"""A channel's topic is deleted under running workers: it is created again, and no event is lost silently."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaNotFound, leave_out
from tests.support.installation import Installation
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system
LIMIT_S = 180.0


def _send(worker: Worker, installation: Installation, ids: range) -> None:
    """Each until it is accepted: while the topic is missing it may be refused."""
    target = f"/channels/{NAMESPACE}/{installation.resources.channel}"

    def accepted(id_: str) -> bool:
        return post(worker.port, target, id_).status == 202

    for number in ids:
        wait_until(f"e{number} is accepted", partial(accepted, f"e{number}"), LIMIT_S)


def _topic_id(admin: KafkaAdmin, topic: str) -> str:
    """The id; "" while there is none. The name alone may still be that of the topic that is being deleted."""
    topics = admin.describe_topics([topic], leave_out(KafkaNotFound))
    return topics[topic].id if topic in topics else ""


def _conditions(installation: Installation, name: str) -> dict[str, str]:
    conditions: list[dict[str, Any]] = installation.status("Subscription", name)["status"]["conditions"]
    return {condition["type"]: condition.get("reason", "") for condition in conditions}


def test_subscription_of_a_recreated_topic_stops_and_can_start_again(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path, env={"PENSTOCK_RESYNC_S": "2"})
    topic = installation.resources.topic
    with ScriptedSubscriber() as subscriber:
        billing = Wanted("billing", subscriber.script("/", says(202)))
        installation.write([billing])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            _send(worker, installation, range(20))
            wait_until("they have come", lambda: len(subscriber.requests("/")) == 20, LIMIT_S)
            admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, limit_s=120)
            former = _topic_id(admin, topic)
            assert admin.delete_topics([topic]) == {}
            wait_until("it is created again", lambda: _topic_id(admin, topic) not in ("", former), LIMIT_S, 0.2)
            # It grows past the position that the subscription had: no offset is out of range.
            _send(worker, installation, range(100, 160))

            def halted() -> bool:
                [row] = worker.subscribers(installation.resources.channel)
                return row["ready"] == "False" and "created again" in row["message"]

            wait_until("the subscription is halted", halted, LIMIT_S, 0.2)
            wait_until(
                "its status says why",
                lambda: _conditions(installation, "billing")["AddedToChannel"] == "TopicReplaced",
                LIMIT_S,
                0.2,
            )
            installation.delete("billing")
            wait_until("it is gone", lambda: not worker.subscribers(installation.resources.channel), LIMIT_S, 0.2)
            again = Wanted("billing", billing.uri, annotations={"penstock.dev/start": "earliest"})
            installation.resources.write(again)
            installation.wait_subscribers(worker, 1)
            everything = {f"e{number}" for number in range(100, 160)}
            wait_until(
                "all that the topic holds has come",
                lambda: everything <= {request.attributes["id"] for request in subscriber.requests("/")},
                LIMIT_S,
            )
            assert worker.terminate() == 0, worker.tail()
