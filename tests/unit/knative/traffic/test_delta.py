"""Traffic deltas as records: there and back, nothing superfluous, and clear words for junk."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.traffic.counts import NAMES, Counts
from knative.traffic.delta import AT_MAX, COUNT_MAX, BadDeltaError, Delta, decode, encode, key_of
from knative.traffic.latency_sketch import BUCKET_MAX

DELTA = Delta("w-1", 7, 1_700_000_000, "settled", "ns", "ch", "sub", "t", "/s", Counts(3, 90, 2, 1, 1), latency={5: 2})
ROW = {
    "v": 1,
    "by": "w-1",
    "n": 7,
    "at": 1_700_000_000,
    "kind": "settled",
    "ns": "ns",
    "channel": "ch",
    "sub": "sub",
    "type": "t",
    "source": "/s",
    "events": 3,
    "bytes": 90,
    "delivered": 2,
    "retried": 1,
    "dead": 1,
    "latency": {"5": 2},
}

counts, words = st.integers(0, COUNT_MAX), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
sketches = st.dictionaries(st.integers(0, BUCKET_MAX), st.integers(1, COUNT_MAX), max_size=8)
deltas = st.builds(
    Delta,
    by=words,
    number=counts,
    at=st.integers(0, AT_MAX),
    kind=st.sampled_from(["accepted", "settled"]),
    namespace=words,
    channel=words,
    subscription=words,
    type=words,
    source=words,
    counts=st.builds(Counts, *(counts for _ in NAMES)),
    latency=sketches,
)


@given(deltas)
def test_delta_comes_back_from_its_record_as_it_was(delta: Delta) -> None:
    assert decode(encode(delta)) == delta


def test_record_is_compact_json() -> None:
    assert encode(DELTA) == json.dumps(ROW, separators=(",", ":")).encode()
    assert key_of(DELTA) == b"ns/ch"


def test_undecodable_text_does_not_stop_the_count() -> None:
    assert decode(encode(Delta("w", 0, 0, "accepted", "ns", "ch", source="a\udcff"))).source == "a?"


def test_names_of_newer_versions_are_passed_over() -> None:
    assert decode(json.dumps({**ROW, "colour": "blue"}).encode()) == DELTA


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"v": 2}, "version 2; this Penstock reads version 1"),
        ({"v": None}, "version None"),
        ({"kind": "lost"}, "kind 'lost'"),
        ({"by": 5}, "by 5, which is not text"),
        ({"ns": None}, "ns None"),
        ({"n": -1}, "n -1, which is not a number from 0 to 1099511627776"),
        ({"at": 1.5}, r"at 1\.5"),
        ({"at": 2**63 - 1}, "at 9223372036854775807, which is not a number from 0 to 253402300799"),
        ({"events": 2**62}, "events 4611686018427387904, which is not a number from 0 to 1099511627776"),
        ({"v": 1.0}, r"version 1\.0"),
        ({"sub": None}, "sub None"),
        ({"type": "\ud800"}, "half of a surrogate pair"),
        ({"latency": {"04": 1}}, "bucket '04'"),
        ({"latency": {"4": 2**62}}, "count 4611686018427387904"),
        ({"events": True}, "events True"),
        ({"events": "3"}, "events '3'"),
        ({"latency": [1]}, r"latency \[1\], which is not an object"),
        ({"latency": {"x": 1}}, "bucket 'x'"),
        ({"latency": {"-1": 1}}, "bucket '-1'"),
        ({"latency": {"241": 1}}, "bucket '241'"),
        ({"latency": {"1": 0}}, "count 0"),
        ({"latency": {"1": True}}, "count True"),
    ],
)
def test_record_that_is_not_a_delta_has_a_reason(changes: dict[str, object], says: str) -> None:
    with pytest.raises(BadDeltaError, match=says):
        decode(json.dumps({**ROW, **changes}).encode())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "list"),
        (b'{"v":NaN}', "NaN is not a number"),
        (b'{"v":1,"v":1}', "a name appears twice"),
        ('{"v":1}'.encode("utf-16"), "not JSON"),
    ],
)
def test_record_that_is_not_an_object_has_a_reason(value: bytes | None, says: str) -> None:
    with pytest.raises(BadDeltaError, match=says):
        decode(value)


@given(st.binary(max_size=60))
def test_junk_never_does_worse(value: bytes) -> None:
    with pytest.raises(BadDeltaError):
        decode(value)
