"""Words of the page. `knative/shown` formats its figures, and in the browser the scripts of the map do (words.js)."""

from __future__ import annotations

from collections.abc import Mapping


def tally(severity: str, number: int) -> str:
    """Returns the word after a number of findings: `critical`, `warnings`, `info`."""
    word = SEVERITIES[severity].lower()
    return f"{word}s" if severity == "warning" and number != 1 else word


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
    "event-type": "event type",
    "rest": "more, combined",
}
FLOWS: Mapping[str, str] = {
    "publishes": "publishes",
    "subscribes": "is read by",
    "delivers": "delivers",
    "replies": "replies",
    "dead-letters": "dead letters",
    "carries": "comes to",
    "sends": "sends",
}
#: The worst first: the scripts take their order from here.
HEALTHS: Mapping[str, str] = {
    "failed": "failed",
    "degraded": "degraded",
    "unknown": "unknown",
    "ok": "ok",
    "idle": "idle",
}
SEVERITIES: Mapping[str, str] = {"critical": "Critical", "warning": "Warning", "info": "Info"}
TIERS: Mapping[str, str] = {
    "windows": "windows of the traffic job (Parquet)",
    "deltas": "the workers' traffic records, one per second",
    "status": "the workers' current statuses: rates of the last minute and lag, without senders",
    "none": "no traffic was read; the contract only",
}
