"""Any JSON value in any field of any record of an internal topic gives a value or an error that says what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.dead_letters import ledger
from knative.contract.codec import UnknownSchema, record_of_leader
from knative.contract.decoding import DecodeError
from knative.contract.leader_state import Identity, LeaderState, Removal, UnknownRow, rows_of
from knative.contract.records import ControllerReport, RemovalRequest, WorkerStatus
from knative.contract.seeks import Move, Seek, SeekPhase, SeekRequest
from knative.traffic.counts import Counts
from knative.traffic.delta import BadDeltaError, Delta, decode, encode
from tables.contract_table import decode_entry, encode_entry
from tables.status_parts import encode_status
from tables.status_table import decode_row, decode_status, encode_report, encode_request
from tables.traffic_windows.windows import Window
from tests.unit.knative.contract.test_codec import BROKER, CHANNEL, PROBLEM, SERVED, STATS, SUBSCRIPTION, TRIGGER

_WORKER = WorkerStatus("w", 5.0, "all", SERVED, {"u1": STATS}, "0.1", ("filter",))
_REMOVAL = Removal("u", "Subscription", "ns/a", "t", "kafka.u", ("t", "t.dlq"), 1.5)
_SEEK = Seek("s", "", "Trigger", "ns", "a", "-3", SeekPhase.MOVING, 2.5, "u", "t", "kafka.u", (Move(0, 5, 2),))
_STATE = LeaderState({"u": _REMOVAL}, {("Trigger", "ns", "a"): Identity("u", 1, "5f")}, {"c": _REMOVAL}, {"s": _SEEK})
_ROWS = [orjson.dumps(record_of_leader(row)) for row in ({"claim": "dir"}, *rows_of(_STATE).values())]
_DELTA = Delta("w", 1, 5, "settled", "ns", "ch", "sub", "type", "/s", Counts(1, 2, 3), {4: 5})
_WINDOW = Window(5, Counts(1, 2, 3), {4: 5})
_LETTER = ledger.LedgerEntry(1, "id", "ns/a", "2026-01-31T08:00:00Z", 2)
#: A decoder, with records of each kind that it reads.
_RECORDS: list[tuple[Callable[[bytes], object], bytes]] = [
    *((decode_entry, encode_entry(entry)) for entry in (BROKER, CHANNEL, SUBSCRIPTION, TRIGGER)),
    (decode_status, encode_status(_WORKER)),
    (decode_status, encode_report(ControllerReport(1.0, (PROBLEM,), 2, ("f",), "0.1"))),
    (decode_status, encode_request(RemovalRequest("u", 5.0))[1]),
    (decode_status, encode_request(SeekRequest("s", "Trigger", "ns", "a", "-3", 5.0))[1]),
    *((decode_row, row) for row in _ROWS),
    (decode, encode(_DELTA)),
    (Window.decode, _WINDOW.encode()),
    (ledger.decode, ledger.encode(_LETTER)),
]
_ERRORS = (DecodeError, UnknownSchema, UnknownRow, BadDeltaError)
_TEXTS = st.sampled_from(
    ["", "x", "-1", "running", "a\0b", "\u00e9" * 300, "../..", "[" * 2000, "http://h:0/"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | _TEXTS
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3))


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value within a JSON value, itself included."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


_FIELDS = [(reader, value, path) for reader, value in _RECORDS for path in _places(orjson.loads(value))]


@pytest.mark.parametrize(("reader", "value"), _RECORDS)
def test_each_of_these_records_can_be_read(reader: Callable[[bytes], object], value: bytes) -> None:
    assert reader(value) is not None


@given(st.sampled_from(_FIELDS), _VALUES)
def test_any_value_in_any_field_gives_a_value_or_an_error(
    field: tuple[Callable[[bytes], object], bytes, tuple[str | int, ...]], value: Any
) -> None:
    reader, good, path = field
    holder = {"": copy.deepcopy(orjson.loads(good))}
    inner: Any = holder
    *outer, last = ("", *path)
    for key in outer:
        inner = inner[key]
    inner[last] = value
    try:
        stored = orjson.dumps(holder[""])
    except TypeError:  # of an infinite number; it is null in JSON
        return
    with suppress(*_ERRORS, *([ValueError] if reader == Window.decode else [])):
        assert reader(stored) is not None


@given(st.sampled_from(_RECORDS), st.binary(max_size=30))
def test_bytes_that_are_no_json_give_an_error(record: tuple[Callable[[bytes], object], bytes], junk: bytes) -> None:
    with pytest.raises((ValueError, BadDeltaError)):
        record[0](junk + b"\xff")


@pytest.mark.parametrize(
    "value", [b'{"v":1,"by":"\\ud800","n":1}', b'{"v":1,"by":"w","n":1' + b"0" * 30 + b"}", b"[" * 9999]
)
def test_delta_that_could_not_be_stored_again(value: bytes) -> None:
    with pytest.raises(BadDeltaError):
        decode(value)
