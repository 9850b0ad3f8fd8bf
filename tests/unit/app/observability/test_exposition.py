"""The whole metrics page against the rules of Prometheus, and the rules against pages that break them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from app.observability.metrics import Metrics
from controller.model import TROUBLES
from knative.contract.subscription_stats import SubscriptionSnapshot
from tests.support.exposition_rules import problems

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
EXEMPT = ("eventing_kafka_consumed_msg_count", "eventing_kafka_produced_msg_count")
#: Label -> how many values it may have with this many subscriptions and channels.
SUBSCRIPTIONS = 3
LABELS = {
    "subscription": SUBSCRIPTIONS,
    "topic": 5,
    "code": 20,
    "verdict": 5,
    "result": 2,
    "kind": 3,
    "what": len(TROUBLES),
    # those of the process itself
    "generation": 3,
    "implementation": 1,
    "major": 1,
    "minor": 1,
    "patchlevel": 1,
    "version": 2,  # of Python, and of Penstock
    "python": 1,
    "librdkafka": 1,
}


def full_page() -> str:
    """A page with every family and every label value that a process can show."""
    metrics = Metrics()
    snapshots = []
    for number in range(SUBSCRIPTIONS):
        label = f"ns/s{number}"
        metrics.assigned(f"penstock-ns-s{number}", "t", [0, 1])
        metrics.consumed(f"penstock-ns-s{number}", "t", 0, 1)
        metrics.delivered(label, 0.1, 0.2)
        for status in (0, 100, 200, 302, 404, 503, 999):
            metrics.attempt(label, status, 0.1)
        for verdict in ("delivered", "dead-lettered", "ignored"):
            metrics.settled(label, verdict, 1.0)
        metrics.expired(label, 1)
        metrics.reply_dropped(label)
        metrics.reply_stored(label)
        metrics.filtered(label)
        metrics.filter_exceeded(label)
        moves = (("assigned", 1), ("revoked", 1), ("lost", 1))
        snapshots.append(SubscriptionSnapshot(label, 1, 1, 1, 1, 1.0, 1, 1, 1, 1, moves))
    for code in (200, 202, 400, 404, 405, 408, 413, 414, 429, 431, 500, 501, 503, 505):
        metrics.request(code)
    for topic in ("t", "t.dlq"):
        metrics.produced(topic, 0, 0.1)
        metrics.stored_again(topic, 1)
    metrics.loop_lag.add(0.1)
    for result in ("stored", "lost"):
        metrics.traffic_delta(result)
    for what in ("started", "failed"):
        metrics.traffic_window(what)
    metrics.watch(lambda: snapshots)
    metrics.watch_ingress(lambda: (1, 1))
    led = ["ns/s0", "ns/s1"], {"t.dlq": 3}
    metrics.watch_controller(lambda: led, lambda: dict.fromkeys(TROUBLES, 1))
    return generate_latest(metrics.registry).decode()


def test_whole_page_keeps_the_rules() -> None:
    assert problems(full_page(), EXEMPT, LABELS) == []


def test_empty_page_keeps_them_too() -> None:
    assert problems(generate_latest(Metrics().registry).decode(), EXEMPT, LABELS) == []


def test_reference_lists_every_metric_with_its_type_and_labels_and_no_other() -> None:
    rows = re.findall(r"^\| `((?:penstock|eventing)_\w+)` \| (\w+) \|([^|]*)\|", REFERENCE.read_text(), re.MULTILINE)
    reported = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    page = full_page()
    exposed = {}
    for name, kind in re.findall(r"^# TYPE ((?:penstock|eventing)_\w+) (\w+)$", page, re.MULTILINE):
        series = re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{([^}}]*)\}}", page, re.MULTILINE)
        labels = {label for sample in series for label in re.findall(r'(\w+)="', sample)} - {"le"}
        exposed[name] = (kind, labels)

    assert reported == exposed
    assert len(rows) == len(reported)


def _page(name: str, kind: str = "gauge", text: str = "It is.", sample: str = "") -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n{sample or name + ' 1.0'}\n"


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (_page("lag_events"), ""),
        (_page("requests_total", "counter"), ""),
        (_page("wait_seconds", "histogram", sample='wait_seconds_bucket{le="+Inf"} 0'), ""),
        (_page("requests", "counter"), "does not end in _total"),
        (_page("requests_total", "gauge"), "ends in _total"),
        (_page("lag_events", text=""), "no help"),
        ("lag_events 1.0\n", "no type"),
        (_page("wait_ms"), "ms is not a base unit"),
        (_page("body_kilobytes"), "not a base unit"),
        (_page("wait", "histogram", sample='wait_bucket{le="+Inf"} 0'), "end in a unit"),
        (_page("seconds_waited"), "unit is not last"),
        (_page("msg_count"), "suffix of histograms"),
        (_page("lagEvents"), "snake_case"),
        (_page("lag_gauge"), "its type"),
        (_page("lag", sample='lag{topic="a"} 1\nlag{topic="a"} 2'), "2 times"),
        (_page("lag") + _page("lag"), "2 times"),
        (_page("lag", sample='lag{id="x"} 1'), "not one of those agreed"),
        (_page("lag", sample='lag{topic="a"} 1\nlag{topic="b"} 1\nlag{topic="c"} 1'), "has 3 values"),
        (_page("lag", sample='lag{topic="http://x/"} 1'), "unbounded"),
    ],
)
def test_page_that_breaks_a_rule_is_named(page: str, complaint: str) -> None:
    complaints = problems(page, (), {"topic": 2})

    assert bool(complaints) == bool(complaint)
    assert re.search(complaint, "\n".join(complaints))
