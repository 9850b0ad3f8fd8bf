"""A world of `plants` put into a real Kafka: contract, a fresh worker's status, and deltas as workers write them."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from knative.contract.kafka_names import contract_topic, status_topic, traffic_topic
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionStats
from knative.traffic.delta import encode, key_of
from tables.contract_table import encode_entry
from tables.status_parts import encode_status
from tests.support.planted_faults import World


def topics(bootstrap: str, instance: str, *, traffic: bool = True) -> None:
    """The internal topics of an installation."""
    names = [contract_topic(instance), status_topic(instance), *([traffic_topic(instance)] if traffic else [])]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(name, 2, 1) for name in names], operation_timeout=120).values():
        done.result(180)


def publish(bootstrap: str, instance: str, world: World) -> None:
    """The contract; some records twice, as compaction leaves them for a while, and one that was removed."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    topic = contract_topic(instance)
    for _ in range(2):
        for channel in world.channels:
            producer.produce(topic, encode_entry(channel), channel.uid)
    for subscription in world.subscriptions:
        producer.produce(topic, encode_entry(subscription), subscription.uid)
    removed = World().channel("removed").channels[0]
    producer.produce(topic, encode_entry(removed), removed.uid)
    producer.produce(topic, None, removed.uid)
    assert producer.flush(180) == 0


def status(bootstrap: str, instance: str, world: World) -> None:
    """One worker that serves whatever the world has as ready; its clock is ahead, for commands may start slowly."""
    ready = {uid for uid, state in world.states.items() if state.ready == "True"}
    served = {
        subscription.uid: WorkerSubscription(
            1, tuple(range(subscription.partitions)) if subscription.uid in ready else (0,), WorkerState.RUNNING
        )
        for subscription in world.subscriptions
    }
    reported = WorkerStatus(
        "w", time.time() + 300, "all", served, {uid: SubscriptionStats(delivered_per_s=1.5) for uid in ready}
    )
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(status_topic(instance), encode_status(reported), "w")
    assert producer.flush(180) == 0


def deltas(bootstrap: str, instance: str, world: World, ago_s: float = 30.0) -> int:
    """The traffic, counted `ago_s` ago; every third record twice, and one that is none. Gives the second."""
    at = int(time.time() - ago_s)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    topic = traffic_topic(instance)
    for number, flow in enumerate(world.flows):
        delta = replace(flow, at=at)
        for _ in range(1 + (number % 3 == 0)):
            producer.produce(topic, encode(delta), key_of(delta))
    producer.produce(topic, b"junk", b"x")
    assert producer.flush(180) == 0
    return at
