"""A record that becomes a request by a plan gives what it gives by itself, whatever came before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.cloudevents import request_plan
from knative.cloudevents.http_binding import RAW_URIS, REPLY_DEPTH
from knative.cloudevents.kafka_binding import Unreadable, to_json_request, to_request
from knative.cloudevents.request_plan import planned_json_request, planned_request
from tests.support.profiles import examples

Record = list[tuple[str, bytes | None]]

PREFIX = b"POST /x HTTP/1.1\r\nhost: h"
REQUIRED: Record = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FULL: Record = [
    ("content-type", b"a/b"),
    *REQUIRED,
    ("ce_time", b"2026-11-21T10:00:00Z"),
    ("traceparent", TRACE),
    ("ce_note", b"100% n"),
    ("ce_dataschema", b"/d%20"),
    ("tracestate", b" a=b, c=d "),
    ("knative-100%d", b"x"),
    ("ce_subject", b"s"),
    ("from-elsewhere", b"\xff"),
    (RAW_URIS, b"dataschema"),
    (REPLY_DEPTH, b"2"),
]
OLD: Record = [*REQUIRED[:3], ("ce_specversion", b"0.3"), ("ce_schemaurl", b"/d"), (RAW_URIS, b"schemaurl")]
UPPER: Record = [*((name.upper(), text) for name, text in REQUIRED), ("Content-Type", b"a/b"), ("TraceParent", TRACE)]
STRUCTURED: Record = [("content-type", b"application/cloudevents+json"), ("traceparent", TRACE), ("ce_id", b"other")]
DEAD: Record = [*REQUIRED, ("ce_knativeerrorcode", b"503"), ("penstock-reason", b"the answer was 503"), ("x", None)]
FORMERS = {"required": REQUIRED, "full": FULL, "0.3": OLD, "upper": UPPER, "structured": STRUCTURED, "dead": DEAD}
ENVELOPE = b'{"id":"e","source":"/e","type":"e","specversion":"1.0","datacontenttype":"a/c","data":"\xc3\xa9"}'
BODIES = [None, b"", ENVELOPE]
VALUES = [
    None,
    b"",
    b"2",
    b"1.0",
    b"0.3",
    b"2.0",
    b"/a%20b",
    b"%b%d%%",
    b'"q"',
    b"a b",
    b" a\t",
    b"\xff",
    "é\ufdd0".encode(),
    "é".encode(),
    b"a\r\nevil: 1",
    b"a/b;c=d",
    b"Application/CloudEvents+JSON",
    b"application/cloudevents-batch",
    b"source,dataschema,schemaurl",
    b"x" * 5000,
]
NAMES: list[Any] = ["ce_note", "CE_ID", "ce_id", "ce_a-b", "content-type", "traceparent", "x-b3-a", "x", RAW_URIS, None]


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    request_plan._plans.clear()
    request_plan._latest.clear()


def outcome(make: Any, headers: Record, value: bytes | None) -> object:
    """The request, or why there is none."""
    try:
        return make(PREFIX, headers, value)
    except Unreadable as problem:
        return problem.reason


def changed(former: Record, values: dict[int, bytes | None], names: dict[int, Any] | None = None) -> Record:
    return [((names or {}).get(at, name), values.get(at, text)) for at, (name, text) in enumerate(former)]


def compare(headers: Record, value: bytes | None) -> None:
    assert outcome(planned_request, headers, value) == outcome(to_request, headers, value), headers


def compare_json(headers: Record, value: bytes | None) -> None:
    assert outcome(planned_json_request, headers, value) == outcome(to_json_request, headers, value), headers


@pytest.mark.parametrize("former", FORMERS.values(), ids=FORMERS)
def test_each_value_is_checked_wherever_it_is_the_one_that_differs(former: Record) -> None:
    for at in range(len(former)):
        for first in (b"7", b"0.3", b"/d"):
            forget()
            compare(former, b"x")
            compare(changed(former, {at: first}), b"x")  # from here on, the plan has a place for it
            for value in VALUES:
                for body in BODIES:
                    compare(changed(former, {at: value}), body)
                    compare_json(changed(former, {at: value}), body)


@pytest.mark.parametrize("former", FORMERS.values(), ids=FORMERS)
def test_each_name_is_compared(former: Record) -> None:
    for at in range(len(former)):
        for differs in (False, True):
            for name in NAMES:
                forget()
                compare(former, b"x")
                if differs:
                    compare(changed(former, {at: b"7"}), b"x")
                compare(former, b"x")
                compare(changed(former, {}, {at: name}), b"x")
                compare(former, b"x")


places = st.integers(0, max(map(len, FORMERS.values())))
records = st.tuples(
    st.sampled_from(list(FORMERS.values())),
    st.dictionaries(places, st.sampled_from(VALUES) | st.binary(max_size=5), max_size=4),
    st.dictionaries(places, st.sampled_from(NAMES), max_size=1),
    st.sampled_from(BODIES),
)


@examples(600)
@given(st.lists(records, min_size=2, max_size=8))
def test_records_of_any_kinds_one_after_the_other(
    sequence: Sequence[tuple[Record, dict[int, bytes | None], dict[int, Any], bytes | None]],
) -> None:
    forget()
    for former, values, names, body in sequence:
        compare(changed(former, values, names), body)
        compare_json(changed(former, values, names), body)


class Mapped:
    """Counts the records that are mapped as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(request_plan, "to_request", self._to_request)

    def _to_request(self, prefix: bytes, headers: Record, value: bytes | None) -> bytes:
        self.count += prefix == PREFIX
        return to_request(prefix, headers, value)


@pytest.mark.parametrize("former", [REQUIRED, FULL, OLD, UPPER, DEAD], ids=["required", "full", "0.3", "upper", "dead"])
def test_records_that_are_alike_are_mapped_as_a_whole_once_or_twice(
    former: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = Mapped(monkeypatch)
    at = [name.lower() for name, _ in former].index("ce_id")
    for number in range(50):
        planned_request(PREFIX, changed(former, {at: b"%d" % number}), b"x")
    assert mapped.count == 2
    request_plan._plans.clear()  # the plan that was used last needs no search
    planned_request(PREFIX, changed(former, {at: b"50"}), b"x")
    assert mapped.count == 2


@pytest.mark.parametrize("plain", [REQUIRED, changed(FULL, {9: b"a=b"})], ids=["required", "full"])
def test_plan_grows_with_each_value_that_turns_out_to_differ(plain: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = Mapped(monkeypatch)
    alike = [
        changed(plain, {at: b"0.3" if name == "ce_specversion" else b"7"})
        for at, (name, _) in enumerate(plain)
        if name != RAW_URIS
    ]
    for headers in [plain, *alike]:
        compare(headers, b"x")
    assert mapped.count == 1 + len(alike)
    for headers in [*alike, plain]:
        compare(headers, b"x")
    assert mapped.count == 1 + len(alike)


def test_kinds_with_the_same_number_of_headers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = Mapped(monkeypatch)
    both_versions = [REQUIRED, changed(REQUIRED, {3: b"0.3"})]
    kinds = [*both_versions, changed(REQUIRED, {}, {0: "ce_type", 2: "ce_id"})]
    for number in range(6):
        for kind in kinds:
            compare(changed(kind, {0: b"%d" % number}), b"x")
    assert mapped.count == 3 + 2  # two values differ of the first kind, one of the other


def test_tables_stay_bounded() -> None:
    for number in range(2000):
        compare([*REQUIRED, (f"ce_a{number}", b"v")], None)
    assert 0 < len(request_plan._plans) < 1000


@pytest.mark.parametrize(
    "large",
    [("ce_note", b"v" * 4_500), ("ce_" + "a" * 3_000, b"v"), ("x", b"v" * 4_500)],
    ids=["value", "name", "not sent"],
)
def test_nothing_is_kept_of_large_records(large: tuple[str, bytes]) -> None:
    compare([*REQUIRED, large], None)
    compare([*REQUIRED, *((f"ce_b{number}", b"v") for number in range(100))], None)
    assert not request_plan._plans
    assert not request_plan._latest
