"""Events and deliveries of which a test knows every one: put into Kafka, and summed by plain Python as the oracle.

    sent = Sent(bootstrap, instance, {"topic-a": ("ns", "a")}); sent.records(...); sent.deltas(...); sent.expected()

Uses nothing of the job that it checks.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from analytics.traffic.windows import COUNTS, Window
from knative.contract.kafka_names import traffic_topic
from knative.traffic import latency_sketch
from knative.traffic.counts import NAMES, Counts, column
from knative.traffic.delta import Delta, encode, key_of

Key = tuple[int, str, str, str, str, str, str]  #: start, kind, namespace, channel, subscription, type, source
_LIMIT_S = 180
_TYPES = ("order.made", "order.paid", "größe", "")


class Sent:
    """What was put into the topics of one installation."""

    def __init__(self, bootstrap: str, instance: str, owners: Mapping[str, tuple[str, str]], seed: int = 1) -> None:
        self.owners = owners
        self.traffic_topic = traffic_topic(instance)
        self.late = 0
        self._random = random.Random(seed)
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "log_level": 0})
        self._sums: dict[Key, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self._sketches: dict[Key, latency_sketch.LatencySketch] = collections.defaultdict(dict)
        self._numbers: collections.Counter[str] = collections.Counter()
        self._errors: list[KafkaError] = []

    def make_traffic_topic(self, **config: str) -> None:
        """With two partitions. Workers make it before they count."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(self.traffic_topic, 2, 1, config=config)])[self.traffic_topic].result(_LIMIT_S)

    def _produce(self, topic: str, *record: Any, **options: Any) -> None:
        self._producer.produce(topic, *record, **{**options, "on_delivery": self._delivered})

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def _flush(self) -> None:
        assert (self._producer.flush(_LIMIT_S), self._errors) == (0, [])

    def records(self, topic: str, count: int, begin_s: int, seconds: int, partitions: int = 2) -> None:
        """Events at seeded moments of `seconds` from `begin_s` on; some without a type, some with a type twice."""
        namespace, channel = self.owners[topic]
        time_options = sorted(self._random.randrange(seconds * 1000) for _ in range(count))
        for number, moment_ms in enumerate(time_options):
            at_ms = begin_s * 1000 + moment_ms
            type_, source = self._random.choice(_TYPES), f"/source/{self._random.randrange(3)}"
            body = b"x" * self._random.randrange(200)
            headers: list[tuple[str, Any]] = [("ce_specversion", b"1.0"), ("ce_source", source.encode())]
            if type_:
                headers.append(("ce_type", type_.encode()))
            if number % 10 == 0:
                headers.append(("ce_type", b"a second one that does not count")) if type_ else None
            self._produce(topic, body, None, number % partitions, headers=headers, timestamp=at_ms)
            self._producer.poll(0)
            key = (at_ms // 60_000 * 60, "stored", namespace, channel, "", type_, source)
            self._sums[key].update(events=1, bytes=len(body))
        self._flush()

    def deltas(self, by: str, channel: tuple[str, str], time_options: Iterable[int], copies: int = 1) -> list[bytes]:
        """One report of a worker for each second: of ingress and of subscription `sub` in turn. Gives their values."""
        values = []
        for at in time_options:
            number = self._numbers[by]
            self._numbers[by] += 1
            delta = self._delta(by, number, at, *channel)
            values.append(encode(delta))
            for _ in range(copies):
                self._produce(self.traffic_topic, values[-1], key_of(delta), timestamp=at * 1000 + 900)
            key = (at // 60 * 60, delta.kind, *channel, delta.subscription, delta.type, delta.source)
            self._sums[key].update({column(name): count for name, count in delta.counts.nonzero().items()})
            latency_sketch.merge(self._sketches[key], delta.latency)
        self._flush()
        return values

    def raw(self, values: Sequence[bytes | None]) -> None:
        """Any values into the traffic topic; they are expected to change nothing."""
        for value in values:
            self._produce(self.traffic_topic, value, b"k")
        self._flush()

    def expected(self) -> list[tuple[Key, dict[str, int], latency_sketch.LatencySketch]]:
        """What the windows of a minute must say, except for late events."""
        names = [name for name in COUNTS if name != "late"]
        return [
            (key, {name: sums[name] for name in names}, self._sketches.get(key, {}))
            for key, sums in sorted(self._sums.items())
        ]

    def _delta(self, by: str, number: int, at: int, namespace: str, channel: str) -> Delta:
        count = self._random.randrange(1, 50)
        if number % 2:
            return Delta(by, number, at, "accepted", namespace, channel, "", "t", "/s", Counts(count, count * 100))
        dead, filtered = self._random.randrange(count), 0
        dead = min(dead, 3)
        filtered = min(count - dead, 2)
        delivered = count - dead - filtered
        latency = latency_sketch.of(self._random.expovariate(20) for _ in range(delivered))
        return Delta(
            by, number, at, "settled", namespace, channel, "sub", "t", "/s",
            Counts(count, count * 100, delivered, self._random.randrange(5), dead, filtered), latency,
        )  # fmt: skip


def shown(windows: Iterable[Window]) -> list[tuple[Key, dict[str, int], latency_sketch.LatencySketch]]:
    """Windows in the form of `Sent.expected`."""
    key = attrgetter("start", "kind", "namespace", "channel", "subscription", "type", "source")
    return [
        (
            key(window),
            {column(name): count for name, count in zip(NAMES, window.counts.values(), strict=True)},
            window.latency,
        )
        for window in sorted(windows, key=key)
    ]
