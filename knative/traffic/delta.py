"""Traffic deltas: what one process did in one second for one channel or subscription, type and source of events.

    ingress, dispatcher --one Delta per second and key--> topic <instance>.traffic --> tables/traffic_windows, analytics

`(by, number)` is unique, so readers recognize a record that comes twice. Numbers count events. `accepted` counts what
ingress stored; `settled` counts what a subscription is done with, each event once however often it was attempted:

    settled: events == delivered + dead + filtered + ignored          retried = attempts beyond the first
"""

from __future__ import annotations

import json
import re
from calendar import timegm
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
#: The most that one process may have counted in a second: a terabyte. The sum of eight million of them fits in 64 bits.
COUNT_MAX = 2**40
AT_MAX = timegm((9999, 12, 31, 23, 59, 59))  #: calendars end there
#: An escaped half of a surrogate pair. JSON can say this, and no key of a record can hold it. `encode` writes none.
HALF_A_CHARACTER = r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]"

BUCKET = "0|[1-9][0-9]{0,2}"  #: a bucket of a latency sketch, as the name of its count
_HALF_A_CHARACTER = re.compile(HALF_A_CHARACTER)
_BUCKET = re.compile(BUCKET)


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
    """Returns the record's key: all deltas of a channel are in one partition, in order."""
    return f"{delta.namespace}/{delta.channel}".encode()


def encode(delta: Delta) -> bytes:
    """Returns the record's value: compact JSON without fields that are zero or empty."""
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
    """Returns the delta of a record's value. Unknown fields are ignored: a newer version may have added them.

    `analytics.traffic.deltas` reads the same in Spark. Raises BadDeltaError with the reason.
    """
    try:
        text = (value or b"").decode()
        row = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadDeltaError(f"A traffic record is not JSON ({error}).") from error
    if not isinstance(row, dict):
        raise BadDeltaError(f"A traffic record is a JSON {type(row).__name__}, not an object.")
    if _HALF_A_CHARACTER.search(text):
        raise BadDeltaError("A traffic record has half of a surrogate pair, which is not text.")
    if row.get("v") != VERSION or type(row["v"]) is not int:
        raise BadDeltaError(f"A traffic record has version {row.get('v')!r}; this Penstock reads version {VERSION}.")
    kind = row.get("kind")
    if kind not in (ACCEPTED, SETTLED):
        raise BadDeltaError(f"A traffic record has kind {kind!r}, but must have {ACCEPTED!r} or {SETTLED!r}.")
    return Delta(
        by=_text(row, "by"),
        number=_count(row, "n"),
        at=_count(row, "at", most=AT_MAX),
        kind=kind,
        namespace=_text(row, "ns"),
        channel=_text(row, "channel"),
        subscription=_text(row, "sub", ""),
        type=_text(row, "type", ""),
        source=_text(row, "source", ""),
        counts=counts.read(lambda name: _count(row, name, 0)),
        latency=_sketch(row.get("latency", {})),
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name appears twice in an object")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _text(row: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str):
        raise BadDeltaError(f"A traffic record has {name} {value!r}, which is not text.")
    return value


def _count(row: Mapping[str, Any], name: str, default: int | None = None, most: int = COUNT_MAX) -> int:
    value = row.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadDeltaError(f"A traffic record has {name} {value!r}, which is not a number from 0 to {most}.")
    return value


def _sketch(value: object) -> LatencySketch:
    if not isinstance(value, dict):
        raise BadDeltaError(f"A traffic record has latency {value!r}, which is not an object of counts by bucket.")
    sketch: LatencySketch = {}
    for bucket, count in value.items():
        if not _BUCKET.fullmatch(bucket) or int(bucket) > BUCKET_MAX:
            raise BadDeltaError(f"A traffic record has latency bucket {bucket!r}, not one of 0 to {BUCKET_MAX}.")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= COUNT_MAX:
            raise BadDeltaError(f"A traffic record has latency count {count!r}, which is not a positive number.")
        sketch[int(bucket)] = count
    return sketch
