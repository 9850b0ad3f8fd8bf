"""Filters of every dialect against attributes that are present, absent, empty, or of another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative import cesql
from knative.filters import Filter, compile_filter, explain, from_json, to_json
from knative.filters.attributes import attributes_of, canonical

EVENT = {
    "id": "1",
    "source": "https://example.com/orders",
    "type": "order.created",
    "specversion": "1.0",
    "subject": "größe",
    "empty": "",
    "hop": "3",
    "urgent": "true",
    "time": "2024-02-29T12:30:00.5Z",
    "datacontenttype": "application/json",
}
T, F = True, False

ROWS: list[tuple[dict[str, Any], bool]] = [
    ({"attributes": {"type": "order.created"}}, T),
    ({"attributes": {"type": "order.deleted"}}, F),
    ({"attributes": {"type": "ORDER.CREATED"}}, F),
    ({"attributes": {"type": ""}}, T),
    ({"attributes": {"missing": ""}}, F),
    ({"attributes": {"empty": ""}}, F),
    ({"attributes": {"missing": "x"}}, F),
    ({"attributes": {"type": "order.created", "source": "", "hop": "3"}}, T),
    ({"attributes": {"type": "order.created", "source": "", "hop": "4"}}, F),
    ({"attributes": {"type": "order.created", "missing": ""}}, F),
    ({"attributes": {"subject": "größe"}}, T),
    ({"attributes": {"hop": "3"}}, T),
    ({"attributes": {"hop": "03"}}, F),
    ({"attributes": {"urgent": "true"}}, T),
    ({"attributes": {"urgent": "TRUE"}}, F),
    ({"attributes": {"time": "2024-02-29T12:30:00.500z"}}, T),
    ({"attributes": {"time": "2024-02-29t12:30:00.5+00:00"}}, T),
    ({"attributes": {"time": "2024-02-29T13:30:00.5+01:00"}}, F),
    ({"attributes": {"datacontenttype": "application/json"}}, T),
    ({"exact": {"type": "order.created"}}, T),
    ({"exact": {"type": "order"}}, F),
    ({"exact": {"source": "https://example.com/orders"}}, T),
    ({"exact": {"source": "https://example.com/orders/"}}, F),
    ({"exact": {"missing": "x"}}, F),
    ({"exact": {"type": "order.created", "hop": "3", "id": "1"}}, T),
    ({"exact": {"type": "order.created", "hop": "3", "id": "2"}}, F),
    ({"exact": {"time": "2024-02-29T12:30:00.50Z"}}, T),
    ({"prefix": {"type": "order."}}, T),
    ({"prefix": {"type": "Order."}}, F),
    ({"prefix": {"type": "order.created.more"}}, F),
    ({"prefix": {"missing": "x"}}, F),
    ({"prefix": {"empty": "x"}}, F),
    ({"prefix": {"subject": "grö"}}, T),
    ({"prefix": {"type": "order", "source": "https://"}}, T),
    ({"prefix": {"type": "order", "source": "http:"}}, F),
    ({"suffix": {"type": ".created"}}, T),
    ({"suffix": {"type": ".deleted"}}, F),
    ({"suffix": {"missing": "x"}}, F),
    ({"suffix": {"hop": "3"}}, T),
    ({"suffix": {"type": "created", "source": "orders"}}, T),
    ({"suffix": {"type": "created", "source": "order"}}, F),
    ({"all": []}, T),
    ({"any": []}, F),
    ({"not": {"all": []}}, F),
    ({"not": {"any": []}}, T),
    ({"all": [{"exact": {"id": "1"}}, {"prefix": {"type": "order"}}]}, T),
    ({"all": [{"exact": {"id": "1"}}, {"prefix": {"type": "x"}}]}, F),
    ({"any": [{"exact": {"id": "2"}}, {"prefix": {"type": "order"}}]}, T),
    ({"any": [{"exact": {"id": "2"}}, {"prefix": {"type": "x"}}]}, F),
    ({"not": {"exact": {"id": "2"}}}, T),
    ({"not": {"exact": {"missing": "x"}}}, T),
    ({"not": {"not": {"exact": {"id": "1"}}}}, T),
    ({"all": [{"any": [{"exact": {"id": "2"}}, {"not": {"suffix": {"type": "x"}}}]}, {"all": []}]}, T),
    ({"cesql": "type LIKE 'order.%' AND hop < 4"}, T),
    ({"cesql": "type LIKE 'order.%' AND hop < 3"}, F),
    ({"cesql": "hop"}, F),  # "3" is not the Boolean true
    ({"cesql": "urgent"}, F),  # the attribute is text on the wire
    ({"cesql": "urgent = TRUE"}, T),
    ({"cesql": "missing = 'x'"}, F),
    ({"cesql": "NOT (missing = 'x')"}, F),  # an error never passes
    ({"cesql": "TRUE OR missing"}, T),
    ({"not": {"cesql": "missing = 'x'"}}, T),
    ({"cesql": "EXISTS subject AND subject = 'größe'"}, T),
    ({"cesql": "time = '2024-02-29T12:30:00.5Z'"}, T),
    ({"cesql": "datacontenttype = 'application/json'"}, T),
]


@pytest.mark.parametrize(("written", "passes"), ROWS, ids=[str(row[0]) for row in ROWS])
def test_filter_passes_what_its_dialect_says(written: dict[str, Any], passes: bool) -> None:
    assert _passes(from_json(written), EVENT) is passes
    assert to_json(from_json(written)) == written


@pytest.mark.parametrize(("written", "passes"), ROWS, ids=[str(row[0]) for row in ROWS])
def test_first_part_of_an_explanation_is_the_result(written: dict[str, Any], passes: bool) -> None:
    filter_ = from_json(written)
    parts = list(explain(filter_, EVENT))
    top = [part.passes for part in parts if part.depth == 0]
    assert all(top) is passes  # maps have one part for each attribute, and all must pass


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "a filter must have one dialect, not none"),
        ({"prefix": {}, "exact": {}}, "a filter must have one dialect, not exact, prefix"),
        ({"like": "x"}, "'like' is not a known filter dialect"),
        ({"all": 1}, "the content of the filter dialect all is not valid"),
        ({"not": []}, "the content of the filter dialect not is not valid"),
        ({"cesql": 1}, "the content of the filter dialect cesql is not valid"),
        ({"exact": "x"}, "the content of the filter dialect exact is not valid"),
        ({"any": [{}]}, "a filter must have one dialect, not none"),
    ],
    ids=str,
)
def test_what_is_not_a_filter_is_an_error(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        from_json(written)
    assert str(raised.value) == message


_PAIRS = st.dictionaries(
    st.sampled_from(["id", "type", "x"]), st.sampled_from(["1", "order", "order.created"]), min_size=1
)
_LEAVES = st.tuples(st.sampled_from(["attributes", "exact", "prefix", "suffix"]), _PAIRS).map(
    lambda pair: {pair[0]: pair[1]}
)
FILTERS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda filter_: {"not": filter_}),
        st.tuples(st.sampled_from(["all", "any"]), st.lists(inner, max_size=3)).map(lambda pair: {pair[0]: pair[1]}),
    ),
    max_leaves=8,
)
EVENTS = st.dictionaries(
    st.sampled_from(["id", "type", "x"]), st.sampled_from(["", "1", "order", "order.created", "a.1"])
)


@given(FILTERS, EVENTS)
def test_compiled_filters_agree_with_a_plain_reading_of_the_rules(
    written: dict[str, Any], event: dict[str, str]
) -> None:
    assert _passes(from_json(written), event) is _plain(written, event)


def _passes(filter_: Filter, event: Mapping[str, str]) -> bool:
    compiled = compile_filter(filter_)
    return True if compiled is None else bool(compiled.matches(event))


def _plain(written: dict[str, Any], event: Mapping[str, str]) -> bool:
    ((dialect, content),) = written.items()
    match dialect:
        case "all":
            return all(_plain(nested, event) for nested in content)
        case "any":
            return any(_plain(nested, event) for nested in content)
        case "not":
            return not _plain(content, event)
    fits = {"prefix": str.startswith, "suffix": str.endswith}.get(dialect, str.__eq__)
    return all(name in event and fits(event[name], text) for name, text in content.items())


BINARY: list[tuple[str, bytes | None]] = [
    ("ce_id", b"1"),
    ("ce_source", b"/a"),
    ("CE_Type", b"t"),
    ("ce_specversion", b"1.0"),
    ("ce_time", b"2024-02-29t12:30:00.10z"),
    ("Content-Type", b" text/plain "),
    ("traceparent", b"00-1"),
]


def test_attributes_come_from_the_headers_of_a_binary_record() -> None:
    assert attributes_of(BINARY, b"data") == {
        "id": "1",
        "source": "/a",
        "type": "t",
        "specversion": "1.0",
        "time": "2024-02-29T12:30:00.1Z",
        "datacontenttype": "text/plain",
    }


def test_attributes_come_from_the_envelope_of_a_structured_record() -> None:
    body = b'{"specversion":"1.0","id":"1","source":"/a","type":"t","hop":3,"urgent":true,"data":{"hop":9}}'
    attributes = attributes_of([("content-type", b"application/cloudevents+json"), ("ce_id", b"other")], body)
    assert attributes is not None
    assert (attributes["id"], attributes["hop"], attributes["urgent"]) == ("1", "3", "true")


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([("ce_id", None)], b""),
        ([("ce_id", b"\xff")], b""),
        ([("content-type", b"application/cloudevents+json")], b"not JSON"),
        ([("content-type", b"application/cloudevents+json")], None),
    ],
)
def test_record_that_is_not_an_event_has_no_attributes(
    headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    assert attributes_of(headers, value) is None


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("2024-02-29T12:30:00Z", "2024-02-29T12:30:00Z"),
        ("2024-02-29t12:30:00z", "2024-02-29T12:30:00Z"),
        ("2024-02-29T12:30:00.000Z", "2024-02-29T12:30:00Z"),
        ("2024-02-29T12:30:00.120Z", "2024-02-29T12:30:00.12Z"),
        ("2024-02-29T12:30:00-00:00", "2024-02-29T12:30:00Z"),
        ("2024-02-29T12:30:00+01:00", "2024-02-29T12:30:00+01:00"),
        ("yesterday", "yesterday"),
    ],
)
def test_times_have_one_form(written: str, compared: str) -> None:
    assert canonical("time", written) == compared
    assert canonical("other", written) == written


_LONG = "a" * cesql.TEXT_MAX
_HEAVY = {"cesql": " OR ".join(["a LIKE '%b%'"] * 10)}

#: Filters, an attribute, whether the event passes, and how often a limit was exceeded.
_LIMITS: list[tuple[dict[str, Any], str, bool, int]] = [
    ({"cesql": "LOWER(a) = 'x'"}, _LONG + "a", F, 1),
    ({"not": {"cesql": "LOWER(a) = 'x'"}}, _LONG + "a", F, 1),
    ({"not": {"cesql": "LOWER(a) = 'x'"}}, _LONG, T, 0),
    ({"any": [{"exact": {"id": "1"}}, {"cesql": "LOWER(a) = 'x'"}]}, _LONG + "a", T, 0),
    ({"any": [{"cesql": "LOWER(a) = 'x'"}, {"exact": {"id": "1"}}]}, _LONG + "a", F, 1),
    ({"all": [{"exact": {"id": "2"}}, {"cesql": "LOWER(a) = 'x'"}]}, _LONG + "a", F, 0),
    ({"any": [_HEAVY, {"not": _HEAVY}]}, _LONG, F, 1),
    ({"any": [_HEAVY, {"not": _HEAVY}]}, _LONG[: cesql.TEXT_MAX // 2], T, 0),
    ({"any": [_HEAVY, {"exact": {"id": "1"}}]}, _LONG, T, 0),
    ({"all": [{"prefix": {"a": "aaa"}}, {"suffix": {"a": "aaa"}}, {"not": {"exact": {"a": "aaa"}}}]}, _LONG * 2, T, 0),
]


@pytest.mark.parametrize(("written", "attribute", "passes", "count"), _LIMITS, ids=range(len(_LIMITS)))
def test_event_for_which_a_filter_exceeds_its_limits_does_not_pass(
    written: dict[str, Any], attribute: str, passes: bool, count: int
) -> None:
    reasons: list[str] = []
    event = {"id": "1", "a": attribute}
    compiled = compile_filter(from_json(written), lambda why, attributes: reasons.append(why + attributes["id"]))
    assert compiled is not None
    assert compiled.matches(event) is passes
    assert len(reasons) == count
    first = next(explain(from_json(written), event))
    assert first.passes is passes
    assert ("characters" in first.value) is bool(count)
    if count:
        assert sum(part.decides for part in explain(from_json(written), event)) == 1


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [
        ({"exact": {"id": "1"}}, 10_000, 100_000),
        ({"cesql": "type LIKE 'order.%' AND INT(hop) < 3"}, 1_000, 10_000),
        ({"cesql": "type LIKE '%order%'"}, 10, 100),
        ({"any": [_HEAVY] * 4}, 1, 4),
        ({"any": [{"exact": {"id": str(number)}} for number in range(500)]}, 10, 100),
    ],
    ids=str,
)
def test_more_a_filter_may_handle_the_sooner_others_have_their_turn(
    written: dict[str, Any], least: int, most: int
) -> None:
    compiled = compile_filter(from_json(written))
    assert compiled is not None
    assert least <= compiled.at_once <= most


def test_explanation_shows_long_values_only_in_part() -> None:
    long = "a" * 120_000
    parts = [
        *explain(from_json({"exact": {"a": "x"}}), {"a": long}),
        *explain(from_json({"cesql": "CONCAT(a, a, a) = a"}), {"a": long[:20_000]}),
        *explain(from_json({"cesql": "a = 'x'"}), {"a": long}),
    ]
    assert max(len(part.value) for part in parts) < 300
    assert any("120,000 characters" in part.value for part in parts)
