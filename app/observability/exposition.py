"""The metrics page: names, help texts, units and labels of all Prometheus metrics. Pure.

Names end in their unit (`_seconds`, `_bytes`) or in what is counted, counters in `_total`. The two `eventing_kafka_*`
names are older than these rules and stay for compatibility. `app/observability/metrics` does the counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from app.observability.histogram import Histogram, cumulative
from knative.contract.subscription_stats import SubscriptionSnapshot

Rows = Iterable[tuple[tuple[str, ...], int]]

_SUBSCRIPTION = ("subscription",)


def build_info(labels: Mapping[str, str]) -> Metric:
    """Returns a gauge that is always 1; its labels have the versions, for joins with other series."""
    return _gauge(
        "penstock_build_info",
        "Always 1; the labels have the versions of Penstock and its parts",
        tuple(labels),
        [(tuple(labels.values()), 1)],
    )


def changes_not_used(is_so: bool) -> Metric:
    """Says whether changed settings, Kafka secrets or code are not used."""
    text = "1 while the process does not use changed settings, Kafka secrets or code"
    return _gauge("penstock_changes_not_used", text, (), [((), int(is_so))])


def consumed(counts: Mapping[tuple[str, str, int], int]) -> Metric:
    """Returns samples by consumer, topic and partition."""
    family = GaugeMetricFamily(
        "eventing_kafka_consumed_msg_count", "Consumed Message Count", labels=("consumer", "partition", "topic")
    )
    for (consumer, topic, partition), count in sorted(counts.items()):
        family.add_metric((consumer, str(partition), topic), count)
    return family


def produced(counts: Mapping[tuple[str, int], int], producer: str) -> Metric:
    """Returns samples by topic and partition."""
    family = GaugeMetricFamily(
        "eventing_kafka_produced_msg_count", "Produced Message Count", labels=("partition", "producer", "topic")
    )
    for (topic, partition), count in sorted(counts.items()):
        family.add_metric((str(partition), producer, topic), count)
    return family


def ingress(requests: Mapping[int, int], in_flight: tuple[int, int] | None) -> Iterator[Metric]:
    """Yields requests by status, and (requests, bytes) that wait for Kafka (None = this process has no ingress)."""
    rows = [((str(code),), count) for code, count in list(requests.items())]
    yield _counter("penstock_ingress_requests", "Requests answered by ingress", ("code",), rows)
    if in_flight is not None:
        waiting, waiting_bytes = in_flight
        yield _gauge(
            "penstock_ingress_in_flight_requests",
            "Requests that wait until Kafka acknowledges their event",
            (),
            [((), waiting)],
        )
        yield _gauge(
            "penstock_ingress_in_flight_bytes",
            "Bytes of headers and bodies that wait until Kafka acknowledges them",
            (),
            [((), waiting_bytes)],
        )


def produce_times(times: Mapping[str, Histogram]) -> Metric:
    """Returns samples by topic."""
    text = "Time from handing a record to the Kafka client until it was acknowledged"
    return _histogram(
        "penstock_produce_seconds", text, ("topic",), [((key,), histogram) for key, histogram in list(times.items())]
    )


def stored_again(counts: Mapping[str, int]) -> Metric:
    """Returns samples by topic."""
    rows = [((topic,), count) for topic, count in list(counts.items())]
    return _counter("penstock_produce_stored_again", "Events that Kafka may have stored twice", ("topic",), rows)


def attempts(rows: Rows) -> Metric:
    """Returns samples by subscription and class of answer."""
    return _counter("penstock_attempts", "Delivery attempts that ended", ("subscription", "code"), rows)


def settled(rows: Rows) -> Metric:
    """Returns samples by subscription and verdict."""
    return _counter("penstock_settled", "Events settled", ("subscription", "verdict"), rows)


def delivery_times(rows: Iterable[tuple[str, Histogram]]) -> Metric:
    """Returns samples by subscription."""
    text = "Time from sending an event to its subscriber until the answer, for each attempt"
    return _histogram(
        "penstock_delivery_seconds", text, _SUBSCRIPTION, [((label,), histogram) for label, histogram in rows]
    )


def end_to_end_times(rows: Iterable[tuple[str, Histogram]]) -> Metric:
    """Returns samples by subscription."""
    text = "Time from storing an event in Kafka until it was settled"
    return _histogram(
        "penstock_end_to_end_seconds", text, _SUBSCRIPTION, [((label,), histogram) for label, histogram in rows]
    )


def filter_limits_exceeded(rows: Rows) -> Metric:
    """Returns samples by subscription."""
    text = "Events that did not match because they exceed a limit of the filter"
    return _counter("penstock_filter_limits_exceeded", text, _SUBSCRIPTION, rows)


def expired(rows: Rows) -> Metric:
    """Returns samples by subscription."""
    text = "Records that retention removed before they were read"
    return _counter("penstock_records_expired", text, _SUBSCRIPTION, rows)


def replies_stored(rows: Rows) -> Metric:
    """Returns the replies of Triggers."""
    return _counter(
        "penstock_replies_stored", "Replies that were stored in the topic of the broker", _SUBSCRIPTION, rows
    )


def replies_dropped(rows: Rows) -> Metric:
    """Returns samples by subscription."""
    return _counter(
        "penstock_replies_dropped",
        "Replies that were dropped, because the subscription has no reply destination",
        _SUBSCRIPTION,
        rows,
    )


def api_server_troubles(counts: Mapping[str, int]) -> Metric:
    """Returns samples by what does not work."""
    rows = [((what,), count) for what, count in sorted(counts.items())]
    return _gauge(
        "penstock_api_server_troubles",
        "What the controller cannot read from or write to the API server now",
        ("what",),
        rows,
    )


def subscription_info(labels: Iterable[str]) -> Metric:
    """Returns a gauge that is always 1, for each subscription."""
    rows = [((label,), 1) for label in labels]
    return _gauge("penstock_subscription_info", "Subscriptions and Triggers in the contract", _SUBSCRIPTION, rows)


def dlq_letters(sizes: Mapping[str, int]) -> Metric:
    """Returns samples by DLQ topic."""
    rows = [((topic,), count) for topic, count in sorted(sizes.items())]
    return _gauge("penstock_dlq_letters", "Records in a DLQ topic", ("topic",), rows)


def traffic_deltas(counts: Mapping[str, int]) -> Metric:
    """Returns samples by result."""
    rows = [((result,), count) for result, count in list(counts.items())]
    return _counter("penstock_traffic_deltas", "Traffic deltas that were stored or dropped", ("result",), rows)


def traffic_windows(counts: Mapping[str, int]) -> Metric:
    """Returns samples by kind of event: started or failed."""
    rows = [((kind,), count) for kind, count in list(counts.items())]
    text = "Starts and failures of the app that sums up traffic windows"
    return _counter("penstock_traffic_windows_events", text, ("kind",), rows)


def loop_lag(times: Histogram) -> Metric:
    """Returns the lag of the process's event loop."""
    return _histogram(
        "penstock_event_loop_lag_seconds", "Delay of the event loop, measured once a second", (), [((), times)]
    )


#: Name, help text and field of `SubscriptionSnapshot`.
_GAUGES = (
    ("penstock_owned_partitions", "Partitions that this process owns", "partitions"),
    ("penstock_in_flight_deliveries", "Requests to subscribers in flight", "in_flight"),
    ("penstock_retrying_events", "Events whose attempts have failed so far", "retrying"),
    ("penstock_lag_events", "Events of the owned partitions that are not settled", "lag"),
    ("penstock_lanes", "Lanes that have an event; always 0 for the order unordered", "lanes"),
    ("penstock_buffered_bytes", "Bytes of records in memory", "buffered_bytes"),
    (
        "penstock_waiting_for_kafka",
        "1 while first attempts wait because Kafka does not confirm commits",
        "waiting_for_kafka",
    ),
    (
        "penstock_throttled",
        "1 while attempts wait because many attempts failed and the event loop is busy",
        "throttled",
    ),
)


def snapshots(every: Sequence[SubscriptionSnapshot]) -> Iterator[Metric]:
    """Yields gauges and counters of all subscriptions in this process."""
    for name, text, field in _GAUGES:
        yield _gauge(
            name,
            text,
            _SUBSCRIPTION,
            [((snapshot.subscription,), getattr(snapshot, field)) for snapshot in every],
        )
    yield _gauge(
        "penstock_oldest_event_timestamp_seconds",
        "Unix time at which the oldest unsettled event in memory was stored",
        _SUBSCRIPTION,
        [((snapshot.subscription,), snapshot.oldest) for snapshot in every if snapshot.oldest],
    )
    commits = [((snapshot.subscription, "ok"), snapshot.commits) for snapshot in every]
    commits += [((snapshot.subscription, "failed"), snapshot.commits_failed) for snapshot in every]
    yield _counter("penstock_commits", "Commits of offsets", ("subscription", "result"), commits)
    moves = [((snapshot.subscription, kind), count) for snapshot in every for kind, count in snapshot.rebalances]
    text = "Rebalances in which partitions were assigned, revoked or lost"
    yield _counter("penstock_rebalances", text, ("subscription", "kind"), moves)


def _counter(name: str, text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(rows):
        family.add_metric(values, count)
    return family


def _gauge(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in sorted(rows):
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], Histogram]]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in sorted(rows, key=lambda row: row[0]):
        family.add_metric(values, cumulative(list(histogram.counts)), histogram.total_s)
    return family
