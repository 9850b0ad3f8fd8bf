"""Tables of refs: what they stand for, what they wait for, and what is said of those that cannot be known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.plan.actions import ClusterView, Object, PublishSubscription
from controller.plan.reconcile import reconcile
from knative.resources.conditions import ConditionStatus
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules, KafkaChannel, Subscriber
from tests.unit.controller.worlds import CONFIG, TOPIC, Kafka, broker, channel, condition, message, names_of
from tests.unit.controller.worlds import subscription as sub

SERVICE = Ref("v1", "Service", "", "sink")
STOCK = Ref("messaging.knative.dev/v1beta1", "KafkaChannel", "", "stock")
KNATIVE_SERVICE = Ref("serving.knative.dev/v1", "Service", "", "sink")
STOCK_HOST = "http://stock-kn-channel.default.svc.cluster.local"


@pytest.mark.parametrize(
    ("target", "uri"),
    [
        (Destination(ref=SERVICE), "http://sink.default.svc.cluster.local/"),
        (Destination(ref=replace(SERVICE, namespace="shop")), "http://sink.shop.svc.cluster.local/"),
        (Destination(ref=SERVICE, uri="/a/b?c=d"), "http://sink.default.svc.cluster.local/a/b?c=d"),
        (Destination(ref=SERVICE, uri="a/../b"), "http://sink.default.svc.cluster.local/b"),
        (Destination(ref=SERVICE, uri="?c=d"), "http://sink.default.svc.cluster.local/?c=d"),
        (Destination(ref=STOCK), STOCK_HOST),
        (Destination(ref=replace(STOCK, api_version="messaging.knative.dev/v1")), STOCK_HOST),
        (Destination(ref=STOCK, uri="/a"), f"{STOCK_HOST}/a"),
        (Destination(uri="http://plain/"), "http://plain/"),
    ],
)
def test_what_a_target_stands_for(target: Destination, uri: str) -> None:
    """As subscriber, as reply and as dead letter sink, of a Subscription and of a channel."""
    target = replace(target, ca_certs="pem")
    sink = DeliveryRules(retry=1, dead_letter_sink=target)
    objects = channel(delivery=sink), channel("stock"), sub(subscriber=target, reply=target), sub("own", delivery=sink)
    kafka = Kafka()
    kafka.settle(*objects)
    billing, own = kafka.world.subscriptions["s-billing"], kafka.world.subscriptions["s-own"]
    for place in (billing.subscriber, billing.reply, billing.delivery.dead_letter_sink, own.delivery.dead_letter_sink):
        assert place is not None
        assert (place.uri, place.ca_certs) == (uri, "pem")
    statuses = kafka.statuses(*objects)
    uri = uri.partition("?")[0]  # a status shows no query
    assert statuses["orders"].body["deadLetterSinkUri"] == uri
    assert condition(statuses["orders"], "DeadLetterSinkResolved") == (ConditionStatus.TRUE, "")
    assert set(statuses["billing"].body["physicalSubscription"].values()) == {uri}


def test_core_gets_the_whole_dead_letter_sink_of_a_channel() -> None:
    """It makes those of Subscriptions from it. Nobody else needs the query, and a Broker is not core's."""
    rules = DeliveryRules(retry=1, dead_letter_sink=Destination(uri="http://sink/?key"))
    objects = channel(delivery=rules), broker(delivery=rules), sub()
    kafka = Kafka()
    kafka.settle(*objects)
    for cluster, uri in ((ClusterView(core=True), "http://sink/?key"), (ClusterView(), "http://sink/")):
        statuses = kafka.statuses(*objects, cluster=cluster)
        assert statuses["orders"].body["deadLetterSinkUri"] == uri
        assert statuses["main"].body["deadLetterSinkUri"] == "http://sink/"
        assert statuses["billing"].body["physicalSubscription"]["deadLetterSinkUri"] == "http://sink/"


def test_ref_to_a_channel_stands_for_the_address_that_its_status_publishes() -> None:
    """By path where an ingress is named, as the names of a cluster mean nothing elsewhere."""
    objects = channel(), channel("stock"), sub(reply=Destination(ref=STOCK))
    by_path = "http://127.0.0.1:8080/channels/default/stock"
    for ingress_url, uri in (("", STOCK_HOST), ("http://127.0.0.1:8080", by_path)):
        kafka = Kafka(config=replace(CONFIG, ingress_url=ingress_url))
        kafka.settle(*objects)
        reply = kafka.world.subscriptions["s-billing"].reply
        assert reply is not None
        assert reply.uri == uri
        body = kafka.statuses(*objects)["stock"].body
        assert body["address"] == body["addresses"][0] == {"name": "http", "url": uri}
        assert {"name": "http", "url": STOCK_HOST} in body["addresses"]


REASONS = ("SubscriberNotResolved", "ReplyNotResolved", "DeadLetterSinkNotResolved")


def _with(target: Destination, reason: str, **fields: Any) -> Any:
    given: dict[str, dict[str, Any]] = {
        "SubscriberNotResolved": {"subscriber": target},
        "ReplyNotResolved": {"reply": target},
        "DeadLetterSinkNotResolved": {"delivery": DeliveryRules(dead_letter_sink=target)},
    }
    return sub(**given[reason], **fields)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize(
    ("target", "reported"),
    [
        (Destination(ref=KNATIVE_SERVICE), "Service of v1"),
        (Destination(ref=Ref("", "Service", "", "sink")), "no apiVersion"),
        (Destination(ref=Ref("messaging.knative.dev/v1", "Channel", "", "stock")), "or an absolute `uri`"),
        (Destination(ref=STOCK), "there is no KafkaChannel default/stock; create it"),
        (Destination(ref=SERVICE, uri="x" * 8_190), "at most 8192"),
    ],
)
def test_unknown_destination_is_not_served_and_has_a_hint(target: Destination, reported: str, reason: str) -> None:
    kafka = Kafka()
    objects = channel(), _with(target, reason)
    kafka.settle(*objects)
    assert not kafka.world.subscriptions
    status = kafka.statuses(*objects)["billing"]
    assert condition(status) == (ConditionStatus.FALSE, reason)
    assert reported in message(status)


def test_dead_letter_sink_of_a_channel_that_is_not_known() -> None:
    for target, truth in (
        (Destination(ref=KNATIVE_SERVICE), ConditionStatus.FALSE),
        (Destination(ref=STOCK), ConditionStatus.UNKNOWN),
    ):
        orders = channel(delivery=DeliveryRules(dead_letter_sink=target))
        status = Kafka().statuses(orders, channel("stock"))["orders"]
        assert condition(status, "DeadLetterSinkResolved") == (truth, "DeadLetterSinkNotResolved")


@pytest.mark.parametrize("reason", REASONS)
def test_ref_waits_for_its_channel_and_follows_it(reason: str) -> None:
    kafka = Kafka()
    referring = _with(Destination(ref=STOCK), reason)
    kafka.settle(channel())
    waiting = kafka.statuses(channel(), channel("stock"), referring)["billing"]
    assert condition(waiting) == (ConditionStatus.UNKNOWN, reason), "no action is needed"
    done = kafka.settle(channel(), channel("stock"), referring)
    assert names_of(done)[-1] == "PublishSubscription"
    served = kafka.world.subscriptions["s-billing"]
    kafka.settle(channel(), referring)
    assert kafka.world.subscriptions["s-billing"] == served, "as with an edit that cannot be served"
    assert condition(kafka.statuses(channel(), referring)["billing"]) == (ConditionStatus.FALSE, reason)
    again = channel("stock", uid="c-again")
    kafka.settle(channel(), again, referring)
    assert condition(kafka.statuses(channel(), again, referring)["billing"], "ReferencesResolved") == (
        ConditionStatus.TRUE,
        "",
    )


def test_ref_to_a_channel_that_is_held_or_in_another_namespace() -> None:
    stock = Object("c-stock", 1, "h1", KafkaChannel("shop", "stock"))
    kafka = Kafka()
    referring = sub(reply=Destination(ref=replace(STOCK, namespace="shop")))
    kafka.settle(channel(), stock)
    done = kafka.settle(channel(), referring, retained=frozenset({"c-stock"}))
    assert names_of(done) == ["CommitStart", "PublishSubscription"], "its file is bad, its address is published"
    reply = kafka.world.subscriptions["s-billing"].reply
    assert reply is not None
    assert reply.uri == "http://stock-kn-channel.shop.svc.cluster.local"


def test_channel_that_is_being_removed_is_not_there() -> None:
    kafka = Kafka()
    kafka.settle(channel(), channel("stock"))
    referring = sub(reply=Destination(ref=STOCK))
    decided = reconcile(kafka.look(channel(), referring), CONFIG)
    assert not [action for action in decided if isinstance(action, PublishSubscription)]
    assert condition(kafka.statuses(channel(), referring)["billing"]) == (ConditionStatus.FALSE, "ReplyNotResolved")


@pytest.mark.parametrize("given", [5, 3, 0])
def test_lowered_generation_of_an_entry_is_never_below_the_published_one(given: int) -> None:
    """Readers of the contract pass over an older generation; the change would never arrive."""

    def with_entry(generation: int, uri: str) -> Object[KafkaChannel]:
        return channel(subscribers=(Subscriber("u1", "core", generation, Destination(uri=uri)),))

    kafka = Kafka()
    kafka.settle(with_entry(5, "http://a/"))
    kafka.settle(with_entry(given, "http://a/"))
    assert kafka.world.subscriptions["u1"].generation == 5
    done = kafka.settle(with_entry(given, "http://b/"))
    assert names_of(done) == ["PublishSubscription"], "once"
    record = kafka.world.subscriptions["u1"]
    assert (record.subscriber.uri, record.topic) == ("http://b/", TOPIC)
    assert record.generation == (5 if given == 5 else 6)
