"""Metrics: plain counters on the hot path, turned into Prometheus samples only when somebody asks.

    feeds, producer, ingress, senders --> dict[key] += n          (cheap: no lock, no label object, no float)
    GET /metrics                      --> Metrics.collect() --> text

Every key has one writer (a partition's consumer thread, the producer's thread, the event loop), so an addition needs
no lock; a scrape copies the items in one step. Labels are bounded: resources that exist, status classes, verdicts.
Refuses to keep what belongs to a subscription that is gone (`forget`), and to measure anything itself: other parts
register collectors of their own in `registry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

#: Index: hundreds of the status; 0 = no answer came.
_STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


class Metrics(Collector):
    """`Observe` on dicts. `producer` is the client name of the process's Kafka producer."""

    def __init__(self, producer: str = "producer") -> None:
        self.producer = producer
        self.registry = CollectorRegistry()
        self._consumed: dict[tuple[str, str, int], int] = {}  # consumer, topic, partition
        self._produced: dict[tuple[str, int], int] = {}  # topic, partition
        self._requests: dict[int, int] = {}  # status
        self._attempts: dict[tuple[str, str], int] = {}  # subscription, status class
        self._attempt_seconds: dict[str, float] = {}  # subscription
        self._settled: dict[tuple[str, str], int] = {}  # subscription, verdict
        self._expired: dict[str, int] = {}  # subscription
        self._replies_dropped: dict[str, int] = {}  # subscription
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    # -- what is observed (see knative.ports.Observe)

    def consumed(self, consumer: str, topic: str, partition: int, count: int) -> None:
        """`count` records were taken from Kafka; from the thread of that consumer."""
        key = (consumer, topic, partition)
        self._consumed[key] = self._consumed.get(key, 0) + count

    def produced(self, topic: str, partition: int) -> None:
        """One record was acknowledged; from the producer's thread."""
        key = (topic, partition)
        self._produced[key] = self._produced.get(key, 0) + 1

    def request(self, code: int) -> None:
        """One ingress request was answered."""
        self._requests[code] = self._requests.get(code, 0) + 1

    def attempt(self, subscription: str, status: int, seconds: float) -> None:
        """One delivery attempt ended; status 0 = no answer."""
        key = (subscription, _STATUS_CLASSES[status // 100] if 0 <= status < 600 else "other")
        self._attempts[key] = self._attempts.get(key, 0) + 1
        self._attempt_seconds[subscription] = self._attempt_seconds.get(subscription, 0.0) + seconds

    def settled(self, subscription: str, verdict: str, count: int = 1) -> None:
        """Events were settled."""
        key = (subscription, verdict)
        self._settled[key] = self._settled.get(key, 0) + count

    def expired(self, subscription: str, count: int) -> None:
        """Records were gone before this subscription read them."""
        self._expired[subscription] = self._expired.get(subscription, 0) + count

    def reply_dropped(self, subscription: str) -> None:
        """An answer held an event that nobody wants."""
        self._replies_dropped[subscription] = self._replies_dropped.get(subscription, 0) + 1

    # -- what exists

    def assigned(self, consumer: str, topic: str, partitions: Iterable[int]) -> None:
        """This consumer owns these partitions now: they are shown with 0 before their first record."""
        for partition in partitions:
            self._consumed.setdefault((consumer, topic, partition), 0)

    def revoked(self, consumer: str, topic: str, partitions: Iterable[int]) -> None:
        """It no longer does: those that never had a record disappear, the others keep their count."""
        for partition in partitions:
            if not self._consumed.get((consumer, topic, partition), 1):
                self._consumed.pop((consumer, topic, partition), None)

    def serves(self, topic: str, partitions: int) -> None:
        """Events may be stored in this topic from now on: its partitions are shown with 0 before their first."""
        for partition in range(partitions):
            self._produced.setdefault((topic, partition), 0)

    def closed(self, consumer: str) -> None:
        """This consumer is gone for good, and its rows with it."""
        for key in [key for key in self._consumed if key[0] == consumer]:
            self._consumed.pop(key, None)

    def forget(self, subscription: str) -> None:
        """This subscription (`namespace/name`) is removed, and its rows with it."""
        for rows in (self._attempt_seconds, self._expired, self._replies_dropped):
            rows.pop(subscription, None)
        for pairs in (self._attempts, self._settled):
            for key in [key for key in pairs if key[0] == subscription]:
                pairs.pop(key, None)

    def unserved(self, topic: str) -> None:
        """No channel owns this topic any more, and its rows go with it."""
        for key in [key for key in self._produced if key[0] == topic]:
            self._produced.pop(key, None)

    # -- what is shown

    def collect(self) -> Iterator[Metric]:
        """The samples of this moment."""
        yield from self._records()
        yield _counter(
            "penstock_ingress_requests", "Requests answered by ingress", ("code",),
            [((str(code),), count) for code, count in list(self._requests.items())],
        )  # fmt: skip
        yield _counter(
            "penstock_attempts", "Delivery attempts that ended", ("subscription", "code"), list(self._attempts.items())
        )
        yield self._attempt_times()
        yield _counter("penstock_settled", "Events settled", ("subscription", "verdict"), list(self._settled.items()))
        yield _counter(
            "penstock_records_expired", "Records that retention removed before they were read", ("subscription",),
            [((subscription,), count) for subscription, count in list(self._expired.items())],
        )  # fmt: skip
        yield _counter(
            "penstock_replies_dropped", "Events in answers for which no reply is set", ("subscription",),
            [((subscription,), count) for subscription, count in list(self._replies_dropped.items())],
        )  # fmt: skip

    def _records(self) -> Iterator[Metric]:
        consumed = GaugeMetricFamily(
            "eventing_kafka_consumed_msg_count", "Consumed Message Count", labels=("consumer", "partition", "topic")
        )
        for (consumer, topic, partition), count in sorted(self._consumed.items()):
            consumed.add_metric((consumer, str(partition), topic), count)
        yield consumed
        produced = GaugeMetricFamily(
            "eventing_kafka_produced_msg_count", "Produced Message Count", labels=("partition", "producer", "topic")
        )
        for (topic, partition), count in sorted(self._produced.items()):
            produced.add_metric((str(partition), self.producer, topic), count)
        yield produced

    def _attempt_times(self) -> Metric:
        counts: dict[str, int] = {}
        for (subscription, _code), count in list(self._attempts.items()):
            counts[subscription] = counts.get(subscription, 0) + count
        times = SummaryMetricFamily(
            "penstock_attempt_seconds", "Time that delivery attempts took", labels=("subscription",)
        )
        for subscription, seconds in sorted(self._attempt_seconds.items()):
            times.add_metric((subscription,), count_value=counts.get(subscription, 0), sum_value=seconds)
        return times


def _counter(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(rows):
        family.add_metric(values, count)
    return family
