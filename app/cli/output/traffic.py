"""The output of `penstock job traffic`: a line for each batch, the table and sentence at the end, rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.traffic.offsets import Rate
from app.cli.output.format import Format, note, print_json, print_table
from app.cli.output.time import show_time
from knative.contract.records import kind_and_name

if TYPE_CHECKING:
    from analytics.traffic.job import Summary

_COLUMNS = {
    "line": "CHANNEL OR SUBSCRIPTION",
    "kind": "KIND",
    "events": "EVENTS",
    "rate": "EVENTS/S",
    "bytes": "BYTES",
    "delivered": "DELIVERED",
    "retried": "RETRIED",
    "dead_lettered": "DEAD",
    "filtered": "FILTERED",
    "p50_s": "P50 S",
    "p99_s": "P99 S",
    "late": "LATE",
    "tier": "TIER",
}
_RATE_COLUMNS = {
    "line": "CHANNEL OR SUBSCRIPTION",
    "kind": "KIND",
    "events": "EVENTS",
    "rate": "EVENTS/S",
    "lag": "LAG",
    "tier": "TIER",
}


def batch_line(run: int, counters: Mapping[str, int], seconds: float) -> str:
    """Returns one line for a batch that was written to the tables."""
    records = sum(count for name, count in counters.items() if name.endswith(".records"))
    odd = ", ".join(
        f"{count} {name.partition('.')[2]}"
        for name, count in counters.items()
        if count and not name.endswith(".records")
    )
    return f"run {run}: {records:,} records in {seconds:.1f} s" + (f" ({odd})" if odd else "")


def summary_rows(summary: Summary) -> list[dict[str, object]]:
    """Returns one row for each channel and subscription, the busiest first."""
    rows: list[dict[str, object]] = []
    for _, window in sorted(summary.totals.windows.items(), key=lambda pair: (-pair[1].counts.events, pair[0])):
        counts, p50_s, p99_s = window.counts, window.latency_s(0.5), window.latency_s(0.99)
        owner = f"{window.namespace}/{window.channel}"
        rows.append(
            {
                "line": _line(owner, window.subscription),
                "kind": window.kind,
                "namespace": window.namespace,
                "channel": window.channel,
                "subscription": window.subscription,
                "events": counts.events,
                "rate": round(counts.events / window.size, 1),
                "bytes": counts.bytes,
                "delivered": counts.delivered,
                "retried": counts.retried,
                "dead_lettered": counts.dead,
                "filtered": counts.filtered,
                "p50_s": None if p50_s is None else round(p50_s, 4),
                "p99_s": None if p99_s is None else round(p99_s, 4),
                "late": window.late,
                "tier": window.tier,
            }
        )
    return rows


def _line(owner: str, subscription: str) -> str:
    """Returns the channel or broker, and the subscription or trigger, by their names."""
    names = [kind_and_name(label, "")[1] for label in (owner, subscription) if label]
    return " > ".join(names)


def show_summary(summary: Summary, folder: Path | str, output: Format) -> None:
    """Print the table and what the run took; JSON has both in one object."""
    rows = summary_rows(summary)
    per_s = summary.records / summary.seconds if summary.seconds else 0.0
    if output is Format.JSON:
        print_json(
            {
                "rows": rows,
                "counters": summary.counters,
                "records": summary.records,
                "batches": summary.batches,
                "windows": summary.rows,
                "seconds": round(summary.seconds, 3),
                "recordsPerSecond": round(per_s),
                "folder": str(folder),
                "stopped": summary.stopped,
                "notes": summary.notes,
            }
        )
        return
    print_table(_COLUMNS, rows, "There is nothing new: the tables already contain everything that is in Kafka.")
    note(
        f"{summary.records:,} records in {summary.seconds:.1f} s ({per_s:,.0f}/s), {summary.batches} batches, "
        f"{summary.rows:,} rows for minutes in {folder}."
    )
    for sentence in oddities(summary.counters):
        note(sentence)
    if summary.stopped:
        note("Stopped before everything was read; the next run continues from here.")


def oddities(counters: Mapping[str, int]) -> list[str]:
    """Returns a sentence for each counter that should be 0."""
    counts = {
        "events came after the end of their window. They count in that window, and as late events.": (
            counters.get("records.late", 0) + counters.get("deltas.late", 0)
        ),
        "reports of workers arrived twice and are counted once.": counters.get("deltas.repeats", 0),
        "reports of workers cannot be read and do not count.": counters.get("deltas.unreadable", 0),
        "events have types or sources beyond the number that is kept apart; they are counted under empty names.": (
            counters.get("records.folded", 0)
        ),
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def show_rates(rates: Sequence[Rate], output: Format) -> None:
    """Print rates from offsets, the busiest first."""
    rows: list[dict[str, object]] = [
        {
            "line": _line(rate.owner, rate.subscription),
            "kind": rate.kind,
            "channel": rate.owner,
            "subscription": rate.subscription,
            "since": show_time(rate.since_s),
            "until": show_time(rate.until_s),
            "events": rate.events,
            "rate": round(rate.per_s, 2),
            "lag": rate.lag,
            "tier": "offsets (estimate)",
        }
        for rate in sorted(rates, key=lambda estimate: (-estimate.events, estimate.owner, estimate.subscription))
    ]
    if output is Format.JSON:
        print_json(rows)
        return
    print_table(_RATE_COLUMNS, rows, "There are no channels or subscriptions.")
    note("These numbers are estimates: transactions, compaction and retention change offsets without an event.")
