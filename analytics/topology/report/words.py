"""Words of the page, with the texts and figures of `knative/shown`. The scripts of the map format figures in the same
way (knative/topology_map/assets/words.js)."""

from __future__ import annotations

from collections.abc import Mapping

from knative.shown import (
    SENTENCE_MAX,
    TEXT_MAX,
    UNKNOWN,
    bytes_rate,
    count,
    moment,
    plural,
    quantity,
    rate,
    seconds,
    short,
    span,
    visible,
)

__all__ = [
    "FLOWS",
    "HEALTHS",
    "KINDS",
    "SENTENCE_MAX",
    "SEVERITIES",
    "TEXT_MAX",
    "TIERS",
    "UNKNOWN",
    "bytes_rate",
    "count",
    "moment",
    "plural",
    "quantity",
    "rate",
    "seconds",
    "short",
    "span",
    "tally",
    "visible",
]


def tally(severity: str, number: int) -> str:
    """The word after a number of findings: `critical`, `warnings`, `note`."""
    word = SEVERITIES[severity].lower()
    return word if number == 1 or severity == "critical" else f"{word}s"


#: Labels for people: kinds of vertices, flows, health, tiers.
KINDS: Mapping[str, str] = {
    "source": "source",
    "channel": "channel",
    "broker": "broker",
    "subscription": "subscription",
    "trigger": "trigger",
    "subscriber": "subscriber",
    "reply-target": "reply destination",
    "dead-letter-sink": "dead letter sink",
    "dlq": "DLQ topic",
    "rest": "more, combined",
}
FLOWS: Mapping[str, str] = {
    "publishes": "publishes",
    "subscribes": "is read by",
    "delivers": "delivers",
    "replies": "replies",
    "dead-letters": "dead letters",
}
HEALTHS: Mapping[str, str] = {
    "ok": "ok",
    "idle": "idle",
    "degraded": "degraded",
    "failed": "failed",
    "unknown": "unknown",
}
SEVERITIES: Mapping[str, str] = {"critical": "Critical", "warning": "Warning", "info": "Note"}
TIERS: Mapping[str, str] = {
    "windows": "windows of the traffic job (Parquet)",
    "deltas": "the workers' traffic records, one per second",
    "status": "the workers' current statuses: rates of the last minute and lag, without senders",
    "none": "no traffic was read; the contract only",
}
