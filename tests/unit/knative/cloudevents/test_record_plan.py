"""An event that is mapped by a plan gives what it gives by itself, whatever the plan was made from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.cloudevents.http_binding import BadEvent, to_record
from knative.cloudevents.record_plan import planned
from tests.support.profiles import examples
from tests.unit.knative.cloudevents.wire import record_like

Pairs = list[tuple[bytes, bytes]]

REQUIRED: Pairs = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
FULL: Pairs = [
    *REQUIRED,
    (b"Host", b"h"),
    (b"ce-time", b"2026-11-21T10:00:00Z"),
    (b"Content-Type", b"a/b"),
    (b"ce-dataschema", b"/d"),
    (b"ce-note", b"n"),
    (b"x-request-id", b"r"),
    (b"ce-subject", b"s"),
    (b"ce-partitionkey", b"k"),
]
OLD: Pairs = [*REQUIRED[:3], (b"ce-specversion", b"0.3"), (b"ce-schemaurl", b"/d"), (b"ce-subject", b"s")]
# An attribute that only the other version has is an extension, which is not checked as a URI.
OLD_EXTENDED: Pairs = [*OLD, (b"ce-dataschema", b"a%20b")]
EXTENDED: Pairs = [*REQUIRED, (b"ce-schemaurl", b"a%20b")]
# What must be decoded: one URI by the letter, and one that is raw.
ENCODED: Pairs = [
    (b"ce-dataschema", b"/d%20e"),
    (b"ce-id", b"%41"),
    (b"ce-source", b"/a%2520b"),
    (b"ce-type", b'"t"'),
    (b"ce-specversion", b"%31.0"),
    (b"ce-time", b"2026-11-21T10:00:00%5a"),
    (b"content-type", b"a/b; c=d"),
    (b"ce-note", b'""'),
    (b"x-request-id", b"a b"),
    (b"ce-subject", "ä".encode()),
]
# The version that is sent decides which attributes are URIs, not the one that it stands for.
OLD_ENCODED: Pairs = [*REQUIRED[:3], (b"ce-specversion", b"%30.3"), (b"ce-schemaurl", b"%41"), (b"ce-subject", b"s")]
FORMERS = [REQUIRED, FULL, FULL[::-1], OLD, OLD_EXTENDED, EXTENDED, ENCODED, OLD_ENCODED]
FORMER_NAMES = ["required", "full", "reversed", "0.3", "0.3 extended", "extended", "encoded", "0.3 encoded"]
VALUES = [
    b"2",
    b"",
    b"1.0",
    b"0.3",
    b"%30.3",
    b'""',
    b'"\\',
    b"%00",
    b"%C3",
    "ü".encode(),
    "\u0085".encode(),
    b"a\tb",
    b"2026-02-28T10:00:00%5A",
    b"/a%20b",
    b"%41",
    b'"q"',
    b"a b",
    b":",
    b"//h:x/",
    b"2026-02-28T10:00:00Z",
    b"2026-02-30T10:00:00Z",
    b"application/json",
    b"application/cloudevents+json",
    b"text/plain; charset=utf-8",
    b"a/b ",
]
BODIES = [None, b"", b'{"specversion":"1.0","id":"e","source":"/e","type":"e"}']


def outcome(pairs: Pairs, body: bytes | None) -> object:
    """The record, or what the sender is told."""
    try:
        return to_record(pairs, body)
    except BadEvent as error:
        return str(error)


def outcome_by_plan(former: Pairs, values: dict[int, bytes], body: bytes | None) -> object:
    """The same for an event that comes after another."""
    try:
        return record_like(former, list(values.values()), list(values), body)
    except BadEvent as error:
        return str(error)


def changed(former: Pairs, values: dict[int, bytes]) -> Pairs:
    return [(name, values.get(at, value)) for at, (name, value) in enumerate(former)]


@pytest.mark.parametrize("former", FORMERS, ids=FORMER_NAMES)
def test_each_attribute_is_checked_when_it_alone_differs(former: Pairs) -> None:
    for value in VALUES:
        outcome([*REQUIRED, (b"content-type", value)], b"{}")  # a content type is known after the first event with it
        for at in range(len(former)):
            for body in BODIES:
                pairs = changed(former, {at: value})
                assert outcome_by_plan(former, {at: value}, body) == outcome(pairs, body), pairs


@examples(800)
@given(
    st.sampled_from(FORMERS),
    st.dictionaries(st.integers(0, 11), st.sampled_from(VALUES)),
    st.sampled_from(BODIES),
)
def test_attributes_that_differ_together_are_checked(
    former: Pairs, values: dict[int, bytes], body: bytes | None
) -> None:
    values = {at: value for at, value in values.items() if at < len(former)}
    assert outcome_by_plan(former, values, body) == outcome(changed(former, values), body)


@pytest.mark.parametrize("name", [b"ce-dataschema", b"ce-schemaurl"])
@pytest.mark.parametrize("uri", [b"/a%20b", b"/a%2520b", b":"])
def test_version_that_differs_decides_which_attribute_is_a_uri(name: bytes, uri: bytes) -> None:
    """Senders of both versions share a plan. Only one of them may send what is not a URI here."""
    events = [[*REQUIRED[:3], (b"ce-specversion", version), (name, uri)] for version in (b"1.0", b"0.3")]
    for former, event in (events, events[::-1]):
        if isinstance(outcome(former, None), str):
            continue  # nothing is learned from it
        assert outcome_by_plan(former, {3: event[3][1]}, None) == outcome(event, None)


STRUCTURED = [(b"content-type", b"application/cloudevents+json"), (b"ce-note", b"n")]
REPEATED = [(b"x-request-id", b"1"), (b"X-Request-Id", b"1")]


@pytest.mark.parametrize(
    ("added", "varying", "expected"),
    [(STRUCTURED, [0, 5], False), (STRUCTURED, [4], None), (REPEATED, [4], False), (REPEATED, [0, 5], False)],
    ids=["structured", "structured once", "repeated", "repeated later"],
)
def test_event_that_makes_no_plan(added: Pairs, varying: Sequence[int], expected: object) -> None:
    record, plan = planned([*REQUIRED, *added], varying, BODIES[2])
    assert (record, plan) == (to_record([*REQUIRED, *added], BODIES[2]), expected)


def test_what_is_the_same_in_all_events_may_be_decoded_and_repeated() -> None:
    former = [*REQUIRED, (b"ce-note", b"a%20b"), *REPEATED]
    _, plan = planned(former, [0], b"x")
    assert plan
    assert plan.record([b"7"], True, b"y") == to_record(changed(former, {0: b"7"}), b"y")


@pytest.mark.parametrize("former", [b"p", b"%41", b"a b"])
def test_value_that_must_be_decoded_each_time_needs_no_other_way(former: bytes) -> None:
    dropped = [(b"Host", b"h"), (b"Content-Length", b"0")]
    _, plan = planned([*REQUIRED, *dropped, (b"ce-subject", former)], [0, 1, 4, 5, 6], None)
    assert plan
    required = [("ce_id", b"7"), ("ce_source", b"/u"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]
    record = plan.record([b"%37", b"/u", b"i", b"1", b'"a b"%20c'], False, b"")
    assert record == ([*required, ("ce_subject", b'"a b" c')], b'"a b" c', None)


def test_a_record_is_not_changed_by_the_next_one() -> None:
    _, plan = planned(REQUIRED, [0], None)
    assert plan
    first, second = plan.record([b"1"], True, None), plan.record([b"2"], True, None)
    assert first is not None
    assert second is not None
    assert (first[0][0], second[0][0]) == (("ce_id", b"1"), ("ce_id", b"2"))
