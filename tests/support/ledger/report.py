"""The report of a run: the numbers of a ledger that a person compares between runs.

Counts and percentiles only; whether a number is acceptable is the checker's to say.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from tests.support.ledger.facts import Fault
from tests.support.ledger.history import History, Rule, delivered


@dataclass(frozen=True, slots=True)
class Report:
    """One run. `events` were answered 202; `hidden` are refused events that Kafka holds where no consumer reads them;
    delays are seconds from the POST to the first delivery's arrival.

    `recovery_*_s`: from the start of a fault until each partition with undelivered events moved again.
    """

    seed: int
    minutes: float
    events: int
    rejected: int
    hidden: int
    subscriptions: int
    partitions: int
    faults: Mapping[str, int]
    deliveries: int
    lost: int
    out_of_order: int
    duplicates: int
    duplicates_percent: float
    duplicates_unexplained: int
    corrupt: int
    unwanted: int
    dead_letters: int
    commits: int
    recovery_median_s: float
    recovery_max_s: float
    delay_p50_s: float
    delay_p99_s: float
    max_rss_bytes: int

    def __str__(self) -> str:
        return orjson.dumps(asdict(self)).decode()


def summarize(
    history: History, rules: Sequence[Rule], duplicates: int, violations: Counter[str], max_rss_bytes: int
) -> Report:
    """`duplicates` counts all of them, explained or not; `violations` by kind."""
    times = [time_s for sent in history.sent.values() for time_s in (sent.time_s, sent.answered_s)]
    delays = _delays(history)
    recoveries = [seconds for fault in history.faults if (seconds := _recovery_s(history, rules, fault)) is not None]
    deliveries = history.deliveries()
    accepted = sum(sent.status == 202 for sent in history.sent.values())
    return Report(
        seed=next((fault.seed for fault in history.faults), 0),
        minutes=round((max(times) - min(times)) / 60, 2) if times else 0.0,
        events=accepted,
        rejected=len(history.sent) - accepted,
        hidden=len(history.hidden),
        subscriptions=len(rules),
        partitions=len(history.partitions),
        faults=dict(Counter(fault.kind for fault in history.faults)),
        deliveries=deliveries,
        lost=violations["lost"] + violations["not-stored"],
        out_of_order=sum(violations[kind] for kind in ("overtaken", "overlap", "stored-order")),
        duplicates=duplicates,
        duplicates_percent=round(100 * duplicates / deliveries, 3) if deliveries else 0.0,
        duplicates_unexplained=violations["duplicate"],
        corrupt=violations["corrupt"],
        unwanted=violations["unwanted"],
        dead_letters=sum(len(letters) for events in history.dead.values() for letters in events.values()),
        commits=sum(len(commits) for commits in history.committed.values()),
        recovery_median_s=round(statistics.median(recoveries), 2) if recoveries else 0.0,
        recovery_max_s=round(max(recoveries), 2) if recoveries else 0.0,
        delay_p50_s=percentile(delays, 50),
        delay_p99_s=percentile(delays, 99),
        max_rss_bytes=max_rss_bytes,
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of `values` do not exceed; 0.0 when there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 4)


def _delays(history: History) -> list[float]:
    delays = []
    for per_event in history.received.values():
        for event, visits in per_event.items():
            sent = history.sent.get(event)
            first = next((visit for visit in visits if delivered(visit)), None)
            if sent is not None and first is not None:
                delays.append(first.time_s - sent.time_s)
    return delays


def _recovery_s(history: History, rules: Sequence[Rule], fault: Fault) -> float | None:
    """None when nothing was waiting for this fault to pass."""
    slowest: float | None = None
    for rule in rules:
        for (topic, _), records in history.partitions.items():
            if topic != rule.topic:
                continue
            firsts = (history.received[rule.subscription].get(record.id) for record in records)
            later = [visits[0].time_s for visits in firsts if visits and visits[0].time_s > fault.from_s]
            if later:
                slowest = max(slowest or 0.0, min(later) - fault.from_s)
    return slowest
