"""Traffic deltas: what one process did in one second for one channel or subscription, type and source of events.

    ingress, dispatcher --one Delta per second and key--> topic <instance>.traffic --> tables/traffic_windows, analytics

`(by, number)` is unique, so readers recognize a record that comes twice. Numbers count events. `accepted` counts what
ingress stored; `settled` counts what a subscription is done with, each event once however often it was attempted:

    settled: events == delivered + dead + filtered + ignored          retried = attempts beyond the first
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from knative.errors import PenstockError
from knative.traffic import counts
from knative.traffic.counts import Counts
from knative.traffic.latency_sketch import BUCKET_MAX, LatencySketch

VERSION = 1
ACCEPTED: Literal["accepted"] = "accepted"
SETTLED: Literal["settled"] = "settled"
Kind = Literal["accepted", "settled"]

#: Combinations of type and source that are counted separately: by one process in one second, of one channel in one
#: minute. The rest is counted under "", "".
COMBINATIONS_MAX = 500
#: The most that one second may have counted. JSON knows larger numbers, and tables do not.
_COUNT_MAX = 2**53


class BadDeltaError(PenstockError):
    """A record of the traffic topic is not a delta that this version can read."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One record of the traffic topic."""

    by: str  #: one run of a process
    number: int  #: counts the deltas of `by`
    at: int  #: Unix second in which it was counted
    kind: Kind
    namespace: str
    channel: str
    subscription: str = ""  #: name; settled only
    type: str = ""
    source: str = ""
    counts: Counts = field(default_factory=Counts)
    latency: LatencySketch = field(default_factory=dict)  #: from the event's entry into Kafka to its delivery


def key_of(delta: Delta) -> bytes:
    """The record's key: all deltas of a channel are in one partition, in order."""
    return f"{delta.namespace}/{delta.channel}".encode()


def encode(delta: Delta) -> bytes:
    """The record's value: compact JSON without fields that are zero or empty."""
    row: dict[str, Any] = {
        "v": VERSION,
        "by": delta.by,
        "n": delta.number,
        "at": delta.at,
        "kind": delta.kind,
        "ns": delta.namespace,
        "channel": delta.channel,
    }
    if delta.subscription:
        row["sub"] = delta.subscription
    row["type"] = delta.type
    row["source"] = delta.source
    row.update(delta.counts.nonzero())
    if delta.latency:
        row["latency"] = {str(bucket): count for bucket, count in sorted(delta.latency.items())}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def decode(value: bytes | None) -> Delta:
    """The delta of a record's value. Unknown fields are ignored: a newer version may have added them.

    Raises BadDeltaError with the reason.
    """
    try:
        row = json.loads(value or b"")
    except (ValueError, RecursionError) as error:
        raise BadDeltaError(f"A traffic record is not JSON ({error}).") from error
    if not isinstance(row, dict):
        raise BadDeltaError(f"A traffic record is a JSON {type(row).__name__}, not an object.")
    if row.get("v") != VERSION:
        raise BadDeltaError(f"A traffic record has version {row.get('v')!r}; this Penstock reads version {VERSION}.")
    kind = row.get("kind")
    if kind not in (ACCEPTED, SETTLED):
        raise BadDeltaError(f"A traffic record has kind {kind!r}, which is neither {ACCEPTED!r} nor {SETTLED!r}.")
    return Delta(
        by=_text(row, "by"),
        number=_count(row, "n"),
        at=_count(row, "at"),
        kind=kind,
        namespace=_text(row, "ns"),
        channel=_text(row, "channel"),
        subscription=_text(row, "sub", ""),
        type=_text(row, "type", ""),
        source=_text(row, "source", ""),
        counts=counts.read(lambda name: _count(row, name, 0)),
        latency=_sketch(row.get("latency", {})),
    )


def _text(row: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str) or _has_half_a_character(value):
        raise BadDeltaError(f"A traffic record has {name} {value!r}, which is not text.")
    return value


def _has_half_a_character(text: str) -> bool:
    """Whether it has one half of a surrogate pair. JSON can say this, and no key of a record can hold it."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def _count(row: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = row.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _COUNT_MAX:
        raise BadDeltaError(f"A traffic record has {name} {value!r}, which is not a count.")
    return value


def _sketch(found: object) -> LatencySketch:
    if not isinstance(found, dict):
        raise BadDeltaError(f"A traffic record has latency {found!r}, which is not an object of counts by bucket.")
    sketch: LatencySketch = {}
    for bucket, count in found.items():
        if not (bucket.isascii() and bucket.isdigit() and len(bucket) < 9 and int(bucket) <= BUCKET_MAX):
            raise BadDeltaError(f"A traffic record has latency bucket {bucket!r}, not one of 0 to {BUCKET_MAX}.")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= _COUNT_MAX:
            raise BadDeltaError(f"A traffic record has latency count {count!r}, which is not a positive number.")
        sketch[int(bucket)] = count
    return sketch
