"""Records of the traffic topic that are deltas, nearly deltas, or something else: for whoever must read all alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from knative.traffic.counts import Counts
from knative.traffic.delta import Delta, encode

DELTA = encode(Delta("w", 0, 1_790_000_040, "settled", "ns", "a", "sub", "t", "/s", Counts(3, 30, 2, 1, 1), {4: 2}))
ODD: list[bytes] = [
    DELTA + b" x", DELTA + DELTA, DELTA + b"," + DELTA, DELTA + b"]", b" \n" + DELTA + b"\t\r", b"\xef\xbb\xbf" + DELTA,
    DELTA.decode().encode("utf-16"), DELTA.replace(b"/s", b"\xc3("), DELTA.replace(b"/s", b"\xed\xa0\x80"),
    DELTA.replace(b'"v":1', b'"v":1,"v":1'), DELTA.replace(b'"4":2', b'"4":2,"4":2'), DELTA.replace(b'"4":2', b""),
    DELTA.replace(b'"v":1', b'"v":1,"x":NaN'), DELTA.replace(b'"v":1', b'"v":1,"x":Infinity'),
    DELTA.replace(b'"n":0', b'"n":-0'), DELTA.replace(b'"n":0', b'"n":00'), DELTA.replace(b'"n":0', b'"n":0e0'),
    DELTA.replace(b"/s", b"\\ud800"), DELTA.replace(b"/s", b"\\\\ud800"), DELTA.replace(b"/s", b"\\ud83d\\ude00"),
    DELTA.replace(b"/s", b"\x01"), DELTA.replace(b"/s", b"\\u0000"), DELTA.replace(b'"', b"'"), b"1", b"null", b"{",
    b'{"v":1}', b" ", b"\x00",
]  # fmt: skip

_values = st.sampled_from(
    [None, True, False, 0, 1, 2, -1, 1.0, 1.5, 1e2, 2**40, 2**40 + 1, 2**53, 2**53 + 1, 253_402_300_799,
     253_402_300_800, 2**62, 2**63 - 1, 2**63, 2**64, 10**40, "", "x", "1", "settled", "accepted", [], [1], {},
     {"a": 1}]
) | st.text(max_size=5)  # fmt: skip
_sketches = st.dictionaries(
    st.sampled_from(["0", "4", "04", "240", "241", "-1", "1.0", " 4", "", "x", "\u0664", "a: BIGINT, 4"]),
    _values,
    max_size=3,
)
_names = st.sampled_from([*json.loads(DELTA), "filtered", "ignored", "newer"])


def _changed(row: dict[str, Any], change: tuple[str, Any]) -> dict[str, Any]:
    name, value = change
    return {other: old for other, old in row.items() if other != name} if value is ... else {**row, name: value}


@st.composite
def _records(draw: st.DrawFn) -> bytes:
    row = json.loads(DELTA)
    changes = st.tuples(_names, _values | st.just(...)) | st.tuples(st.just("latency"), _sketches)
    for change in draw(st.lists(changes, max_size=2)):
        row = _changed(row, change)
    text: str = json.dumps(row, ensure_ascii=draw(st.booleans()))
    spoil: Callable[[bytes], bytes] = draw(st.sampled_from(_SPOILS))
    return spoil(text.encode("utf-8", "replace"))


_SPOILS: list[Callable[[bytes], bytes]] = [
    *([lambda value: value] * 8),
    lambda value: value[:-1],
    lambda value: value + b"}",
    lambda value: value.replace(b",", b", ,", 1),
    lambda value: b"[" + value + b"]",
]

odd_deltas: st.SearchStrategy[bytes] = _records() | st.binary(max_size=40)
