"""An installation as it is stored in Kafka, without any worker: a contract, events and dead letters."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agents.dispatch.dead_letters import versions
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.records import SUBSCRIPTION, Channel, Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable, DeliverySpec
from knative.delivery.verdicts import RetryableFailure
from tables.contract_table import encode_entry
from tests.support.processes import REPOSITORY, run, wait_until

_LIMIT_S = 600.0  # a job on Spark takes minutes on a busy machine

Pairs = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class StoredInstallation:
    """One channel `ns/ch`, of which only the data in Kafka exists."""

    bootstrap: str
    instance: str
    topic: str
    partitions: int = 2

    @classmethod
    def make(cls, bootstrap: str, name: str, partitions: int = 2) -> StoredInstallation:
        """With all its topics and no subscription yet."""
        made = cls(bootstrap, f"i{name}", f"{name}.ch", partitions)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        internal = [NewTopic(topic, 1, 1) for topic in (contract_topic(made.instance), status_topic(made.instance))]
        channel = [NewTopic(topic, partitions, 1) for topic in (made.topic, made.dlq_topic)]
        for done in admin.create_topics([*internal, *channel], operation_timeout=120).values():
            done.result(180)
        made.publish("c", encode_entry(Channel("c", 1, "ns", "ch", made.topic, made.dlq_topic, partitions)))
        return made

    @property
    def dlq_topic(self) -> str:
        """Of the channel."""
        return f"{self.topic}.dlq"

    def publish(self, uid: str, value: bytes | None) -> None:
        """Write to the contract."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        producer.produce(contract_topic(self.instance), value, uid)
        assert producer.flush(180) == 0

    def subscribe(
        self, name: str, uri: str = "http://127.0.0.1:1/", reply: str | None = None, kind: str = SUBSCRIPTION
    ) -> Subscription:
        """Put a Subscription or Trigger into the contract; its uid is `u-<name>-<instance>`."""
        uid = f"u-{name}-{self.instance}"
        subscription = Subscription(
            uid, 1, "ns", name, "c", "ch", self.topic, self.dlq_topic, self.partitions, f"kafka.{uid}",
            Addressable(uri), None if reply is None else Addressable(reply), DeliverySpec(backoff_delay_s=0.02),
            kind=kind,
        )  # fmt: skip
        self.publish(uid, encode_entry(subscription))
        return subscription

    def events(self, numbers: Sequence[int], ago_s: float = 0.0) -> None:
        """One event for each number, with it as id, type `even` or `odd`, spread over the partitions in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in numbers:
            headers: Any = event(str(number))
            producer.produce(
                self.topic, b"data %d" % number, partition=number % self.partitions, headers=headers,
                timestamp=int((time.time() - ago_s) * 1000) + number,
            )  # fmt: skip
        assert producer.flush(180) == 0

    def commit(self, subscription: Subscription, partition: int, committable: OffsetTracker) -> None:
        """As a worker does: the lowest unsettled offset, and what lies settled above it."""
        offset = TopicPartition(self.topic, partition, committable.committable, committable.metadata())
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": subscription.group})
        try:
            wait_until("the coordinator takes a commit", lambda: _committed(consumer, offset), _LIMIT_S)
        finally:
            consumer.close()

    def dead_letters(
        self, subscription: Subscription, ids: Sequence[str], reason: str = "the answer was 503", ago_s: float = 0.0
    ) -> None:
        """Dead letters of this subscription, as delivery writes them, in the first partition. 64 replies led to
        the event `deep`."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 20})
        at = time.time() - ago_s
        for number, event_id in enumerate(ids):
            value = b"data of " + event_id.encode()
            record = Delivery(
                PartitionState(self.topic, 1, OffsetTracker(0)), number, b"k", value,
                event(event_id) + ([(REPLY_DEPTH, b"64")] if event_id == "deep" else []), len(value),
            )  # fmt: skip
            failure = RetryableFailure(503, reason, b"busy \xff" if event_id == "binary" else b"busy")
            outcome = Outcome(failure, subscription.subscriber.uri, 3, at, 0.1)
            headers: Any = versions(record, subscription, outcome, at)[0]
            producer.produce(self.dlq_topic, value, b"k", 0, headers=headers, timestamp=int(at * 1000))
        assert producer.flush(180) == 0

    def penstock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return run(self.command(*arguments), self.environment(), _LIMIT_S)

    def command(self, *arguments: str) -> list[str]:
        """For a process of one's own."""
        return [sys.executable, "-m", "app.cli", *arguments]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What makes commands look at this installation."""
        return {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY),
            "PENSTOCK_KAFKA": self.bootstrap,
            "PENSTOCK_INSTANCE": self.instance,
            **(more or {}),
        }

    def json(self, *arguments: str) -> Any:
        """What a command that must succeed prints as one JSON value."""
        done = self.penstock(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def _committed(consumer: Consumer, offset: TopicPartition) -> bool:
    """False while a broker that has just started does not know yet who keeps the group."""
    try:
        consumer.commit(offsets=[offset], asynchronous=False)
    except KafkaException:
        return False
    return True


def event(event_id: str) -> Pairs:
    """Record headers of an event."""
    kind = b"odd" if event_id[-1:] in "13579" else b"even"
    return [
        ("ce_specversion", b"1.0"), ("ce_id", event_id.encode()), ("ce_source", b"/s"), ("ce_type", kind),
        ("ce_note", "größer".encode()), ("content-type", b"text/plain"), ("traceparent", b"00-1-2-01"),
    ]  # fmt: skip
