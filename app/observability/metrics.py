"""Metrics: plain counters on the hot path, turned into Prometheus samples at each scrape.

    consumers, producer, ingress, pools --> row.counts[i] += 1      (cheap: no lock, no label object, one look-up)
    GET /metrics                        --> Metrics.collect() --> app/observability/exposition --> text

Every number has one writer (the thread of a consumer, or the event loop), so an addition needs no lock. A scrape copies
the items in one step and may run in any thread. Gauges (in flight, lag, lanes) are not kept here but read at each
scrape (`watch`). The number of label values is bounded: existing resources, status classes, verdicts. The series of a
removed subscription are removed too (`forget`).
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version

import confluent_kafka
from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

from app.observability import exposition
from app.observability.histogram import BOUNDS_S, Histogram
from knative.contract.subscription_stats import SubscriptionSnapshot
from knative.delivery.attempt import Settled

#: Index: hundreds of the status; 0 = no answer.
_STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx", "other")
#: Shown with 0 before the first such answer: Prometheus finds no rate in a series that begins with its first events.
_CODES_AT_START = (202, 429, 500, 503)


def build() -> dict[str, str]:
    """Returns the versions of this program, its interpreter and its Kafka client."""
    return {
        "version": version("penstock"),
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
    }


class _Row:
    """Counts of one subscription. Written on the event loop, read from any thread."""

    __slots__ = (
        "answers",
        "attempts",
        "delivered",
        "end_to_end",
        "expired",
        "filter_exceeded",
        "filtered",
        "replies_dropped",
        "replies_stored",
        "verdicts",
    )

    def __init__(self) -> None:
        self.delivered = 0  #: at the first attempt; these are not in `answers` and `verdicts`
        self.answers = [0] * len(_STATUS_CLASSES)
        self.verdicts: dict[str, int] = {}
        self.attempts = Histogram()
        self.end_to_end = Histogram()
        self.expired = 0
        self.replies_dropped = self.replies_stored = 0
        self.filtered = self.filter_exceeded = 0


class Metrics(Collector):
    """Implements `Observe` with plain numbers. `producer` is the client name of the process's Kafka producer."""

    def __init__(self, producer: str = "producer") -> None:
        self.producer = producer
        self.registry = CollectorRegistry()
        self.consumed_records: dict[tuple[str, str, int], int] = {}  #: consumer, topic, partition
        self.requests: dict[int, int] = {}  #: status
        self.stored_twice: dict[str, int] = {}  #: topic; records that may be stored twice
        self.loop_lag = Histogram()
        self.traffic_deltas: dict[str, int] = {}  #: result
        self.traffic_windows: dict[str, int] = {}  #: what happened
        self._build = build()
        self._rows: dict[str, _Row] = {}  # subscription
        self._topics: dict[str, tuple[dict[int, int], Histogram]] = {}  # records by partition, and produce times
        self._read_snapshots: Callable[[], Iterable[SubscriptionSnapshot]] = tuple
        self._read_unused: Callable[[], bool] = bool
        self._read_ingress: Callable[[], tuple[int, int]] | None = None
        self._read_led: Callable[[], tuple[Iterable[str], Mapping[str, int]]] = lambda: ((), {})
        self._read_troubles: Callable[[], Mapping[str, int]] | None = None
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    # -- what is observed (see knative.ports.Observe)

    def consumed(self, consumer: str, topic: str, partition: int, count: int) -> None:
        """`count` records were taken from Kafka; from the thread of that consumer."""
        key = (consumer, topic, partition)
        self.consumed_records[key] = self.consumed_records.get(key, 0) + count

    def produced(self, topic: str, partition: int, seconds: float) -> None:
        """One record was acknowledged, `seconds` after it was sent."""
        try:
            records, times = self._topics[topic]
        except KeyError:
            records, times = self._topics[topic] = ({}, Histogram())
        try:
            records[partition] += 1
        except KeyError:
            records[partition] = 1
        times.counts[bisect_left(BOUNDS_S, seconds)] += 1
        times.total_s += seconds

    def stored_again(self, topic: str, count: int) -> None:
        """`count` acknowledged records may be in Kafka twice."""
        self.stored_twice[topic] = self.stored_twice.get(topic, 0) + count

    def request(self, code: int) -> None:
        """One ingress request was answered."""
        self.requests[code] = self.requests.get(code, 0) + 1

    def delivered(self, subscription: str, seconds: float, age_s: float) -> None:
        """One event was delivered by its first attempt, which took `seconds`; it was stored `age_s` ago."""
        row = self._rows.get(subscription)
        if row is None:
            row = self._row(subscription)
        row.delivered += 1
        times = row.attempts
        times.counts[bisect_left(BOUNDS_S, seconds)] += 1
        times.total_s += seconds
        times = row.end_to_end
        times.counts[bisect_left(BOUNDS_S, age_s)] += 1
        times.total_s += age_s

    def attempt(self, subscription: str, status: int, seconds: float) -> None:
        """One other delivery attempt ended; status 0 = no answer."""
        row = self._row(subscription)
        row.answers[status // 100 if 0 <= status < 600 else -1] += 1
        row.attempts.add(seconds)

    def settled(self, subscription: str, settled: str, age_s: float) -> None:
        """One other event was settled; it was stored `age_s` ago."""
        row = self._row(subscription)
        row.verdicts[settled] = row.verdicts.get(settled, 0) + 1
        row.end_to_end.add(age_s)

    def filtered(self, subscription: str) -> None:
        """One event did not pass the filter."""
        row = self._rows.get(subscription)
        if row is None:
            row = self._row(subscription)
        row.filtered += 1

    def filter_exceeded(self, subscription: str) -> None:
        """The filter could not judge one event within its limits."""
        self._row(subscription).filter_exceeded += 1

    def expired(self, subscription: str, count: int) -> None:
        """Retention removed `count` records before this subscription read them."""
        self._row(subscription).expired += count

    def reply_stored(self, subscription: str) -> None:
        """An answer's event was stored in the broker's topic."""
        self._row(subscription).replies_stored += 1

    def reply_dropped(self, subscription: str) -> None:
        """An answer contained an event, and the subscription has no `reply`."""
        self._row(subscription).replies_dropped += 1

    def _row(self, subscription: str) -> _Row:
        return self._rows.setdefault(subscription, _Row())

    def traffic_delta(self, result: str) -> None:
        """A delta for the traffic topic was `stored` or dropped (`lost`)."""
        self.traffic_deltas[result] = self.traffic_deltas.get(result, 0) + 1

    def traffic_window(self, what: str) -> None:
        """The app that keeps the traffic windows has `started` or `failed`."""
        self.traffic_windows[what] = self.traffic_windows.get(what, 0) + 1

    # -- what exists

    def watch(self, supervisor: Callable[[], Iterable[SubscriptionSnapshot]]) -> None:
        """Call `supervisor` for snapshots at each scrape, from any thread."""
        self._read_snapshots = supervisor

    def watch_ingress(self, in_flight: Callable[[], tuple[int, int]]) -> None:
        """Call `in_flight` for (requests, bytes) that wait for Kafka at each scrape, from any thread."""
        self._read_ingress = in_flight
        for code in _CODES_AT_START:
            self.requests.setdefault(code, 0)

    def watch_changes(self, are_not_used: Callable[[], bool]) -> None:
        """Call `are_not_used` at each scrape, from any thread."""
        self._read_unused = are_not_used

    def watch_controller(
        self,
        led: Callable[[], tuple[Iterable[str], Mapping[str, int]]],
        troubles: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Call `led` for (all subscriptions, dead letters by DLQ topic) of a leading controller, and `troubles` for how
        many things do not work at the API server, by what they are, at each scrape, from any thread."""
        self._read_led, self._read_troubles = led, troubles

    def assigned(self, consumer: str, topic: str, partitions: Iterable[int]) -> None:
        """This consumer owns these partitions now. They have the value 0 until their first record."""
        for partition in partitions:
            self.consumed_records.setdefault((consumer, topic, partition), 0)

    def revoked(self, consumer: str, topic: str, partitions: Iterable[int]) -> None:
        """This consumer no longer owns these partitions. Series with the value 0 are removed, the others stay."""
        for partition in partitions:
            if not self.consumed_records.get((consumer, topic, partition), 1):
                self.consumed_records.pop((consumer, topic, partition), None)

    def serves(self, topic: str, partitions: int) -> None:
        """Ingress may store events in this topic now. Its partitions have the value 0 until their first event."""
        records, _ = self._topics.setdefault(topic, ({}, Histogram()))
        for partition in range(partitions):
            records.setdefault(partition, 0)

    def closed(self, consumer: str) -> None:
        """This consumer has ended: remove its series."""
        for key in [key for key in list(self.consumed_records) if key[0] == consumer]:
            self.consumed_records.pop(key, None)

    def forget(self, subscription: str) -> None:
        """This subscription (`namespace/name`) was removed: remove its series."""
        self._rows.pop(subscription, None)

    def unserved(self, topic: str) -> None:
        """No channel has this topic any more: remove its series."""
        self._topics.pop(topic, None)
        self.stored_twice.pop(topic, None)

    # -- what is shown

    def collect(self) -> Iterator[Metric]:
        """Yields the samples of this moment."""
        yield exposition.build_info(self._build)
        yield exposition.changes_not_used(self._read_unused())
        yield exposition.consumed(self.consumed_records)
        topics = list(self._topics.items())
        counts = {(topic, number): count for topic, (records, _) in topics for number, count in list(records.items())}
        yield exposition.produced(counts, self.producer)
        yield from exposition.ingress(self.requests, self._read_ingress() if self._read_ingress else None)
        yield exposition.produce_times({topic: times for topic, (_, times) in topics if any(times.counts)})
        yield exposition.stored_again(self.stored_twice)
        yield from self._subscriptions()
        yield from exposition.snapshots(list(self._read_snapshots()))
        yield exposition.loop_lag(self.loop_lag)
        subscriptions, letters = self._read_led()
        yield exposition.subscription_info(subscriptions)
        yield exposition.dlq_letters(letters)
        if self._read_troubles is not None:
            yield exposition.api_server_troubles(self._read_troubles())
        yield exposition.traffic_deltas(self.traffic_deltas)
        yield exposition.traffic_windows(self.traffic_windows)

    def _subscriptions(self) -> Iterator[Metric]:
        rows = sorted(self._rows.items())
        answers, verdicts = [], []
        for label, row in rows:
            delivered = row.delivered
            codes = list(row.answers)
            codes[_STATUS_CLASSES.index("2xx")] += delivered
            answers += [((label, name), count) for name, count in zip(_STATUS_CLASSES, codes, strict=True) if count]
            counts = dict(row.verdicts)
            if row.filtered:  # beside those whose filter changed while they waited for a retry
                counts[Settled.FILTERED] = counts.get(Settled.FILTERED, 0) + row.filtered
            if delivered:
                counts[Settled.DELIVERED] = counts.get(Settled.DELIVERED, 0) + delivered
            verdicts += [((label, verdict), count) for verdict, count in counts.items()]
        yield exposition.attempts(answers)
        yield exposition.settled(verdicts)
        yield exposition.delivery_times((label, row.attempts) for label, row in rows)
        yield exposition.end_to_end_times((label, row.end_to_end) for label, row in rows)
        exceeded = (((label,), row.filter_exceeded) for label, row in rows if row.filter_exceeded)
        yield exposition.filter_limits_exceeded(exceeded)
        yield exposition.expired(((label,), row.expired) for label, row in rows if row.expired)
        yield exposition.replies_stored(((label,), row.replies_stored) for label, row in rows if row.replies_stored)
        yield exposition.replies_dropped(((label,), row.replies_dropped) for label, row in rows if row.replies_dropped)
