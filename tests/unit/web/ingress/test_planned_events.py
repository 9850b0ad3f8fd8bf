"""Events that come one after another give what each gives by itself, through one reader and one table of plans."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from knative.cloudevents.http_binding import BadEvent, to_record
from knative.cloudevents.record_plan import planned
from tests.support.profiles import examples
from tests.unit.web.http.checked_states import CheckedReader
from tests.unit.web.http.reading import Forgetful
from web.http import head_plan
from web.http.config import DriverConfig, HttpRejection
from web.http.request_reader import COMPLETE
from web.ingress.view import record_of

#: Header lines of senders. Values are drawn; a sender repeats most of its own.
SHAPES = [
    (b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"ce-subject"),
    (b"ce-id", b"ce-source", b"ce-type", b"ce-schemaurl", b"ce-dataschema", b"ce-specversion", b"Content-Type"),
    (b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"ce-note", b"x-request-id", b"X-Request-Id", b"x"),
    (b"Connection", b"CE-ID", b"ce-source", b"ce-type", b"ce-specversion", b"ce-partitionkey", b"ce-subject"),
    (b"ce-time", b"ce-id", b"ce-source", b"ce-type", b"ce-specversion", b"Upgrade", b"Connection", b"ce-note"),
    (b"ce-specversion", b"ce-id", b"ce-id", b"ce-source", b"ce-type"),
    (b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"Content-Type", b"content-type"),
]
TEXTS = [
    b"1",
    b"2",
    b"",
    b"a%20b",
    b"%41",
    b'"q"',
    b"a b",
    b"a\tb",
    b" z",
    b"\xc3\xa4",
    b"\xff",
    b"%00",
    b'"%"',
    b"%C3",
]
VALUES = {
    b"ce-specversion": [b"1.0", b"0.3", b"%31.0", b"%30.3", b'"0.3"', b"2.0"],
    b"ce-source": [b"/s", b"/t", b"/a%20b", b"/a%2520b", b'"/s"', b"%41", b"a b", b":", b"\xc3\xa4"],
    b"ce-time": [b"2026-11-21T10:00:00Z", b"2026-02-30T10:00:00Z", b"2026-11-21T10:00:00%5A", b""],
    b"ce-dataschema": [b"/d", b"/a%20b", b"/a%2520b", b"a b", b"", b"%41"],
    b"content-type": [
        b"a/b",
        b"a/b;c=d",
        b"text/plain; charset=\xc3\xa4",
        b"",
        b"application/cloudevents+json",
        b"a\t/b",
    ],
    b"connection": [b"keep-alive", b"close", b"Upgrade", b"x, Upgrade"],
    b"upgrade": [b"h2c", b"websocket"],
}
VALUES[b"ce-schemaurl"] = VALUES[b"ce-dataschema"]
BODY = b'{"specversion":"1.0","id":"e","source":"/e","type":"e"}'


@st.composite
def events(draw: st.DrawFn) -> list[bytes]:
    """Requests of a few senders, in turn."""
    requests: list[bytes] = []
    for names in draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2)):
        usual = [VALUES.get(name.lower(), TEXTS)[0] for name in names]
        for _ in range(draw(st.integers(1, 7))):
            values = list(usual)
            for at in draw(st.lists(st.integers(0, len(names) - 1), max_size=3)):
                values[at] = draw(st.sampled_from(VALUES.get(names[at].lower(), TEXTS)))
            if draw(st.booleans()):
                usual = values
            body = draw(st.sampled_from([None, b"", BODY]))
            length = [] if body is None else [b"Content-Length: %d" % len(body)]
            lines = [b"%b: %b" % line for line in zip(names, values, strict=True)]
            head = b"\r\n".join([b"POST /c HTTP/1.1", b"Host: h", *lines, *length])
            requests.append(head + b"\r\n\r\n" + (body or b""))
    return draw(st.permutations(requests)) if draw(st.booleans()) else requests


def outcome(reader: CheckedReader, data: bytes, careful: bool) -> Any:
    """What ingress makes of a request, which is read whole."""
    try:
        assert reader.read(data, 0) == len(data)
        assert reader.state is COMPLETE
        request = reader.take()
        assert not (careful and request.plan)
        head = (request.method, request.target, request.host, request.pairs(), request.keep, request.head_bytes)
        return head, to_record(request.pairs(), request.body) if careful else record_of(request)
    except (HttpRejection, BadEvent) as error:
        return str(error)


@examples(600)
@given(events())
def test_events_in_a_row_are_read_and_mapped_as_each_by_itself(requests: list[bytes]) -> None:
    head_plan._plans.clear()
    reader = CheckedReader(DriverConfig())
    for data in [*requests, *requests]:
        with patch.object(head_plan, "_plans", Forgetful()):
            by_itself = outcome(CheckedReader(DriverConfig()), data, True)
        assert outcome(reader, data, False) == by_itself, data
        if isinstance(by_itself, str) or not by_itself[0][4]:
            reader = CheckedReader(DriverConfig())


def test_structured_events_are_not_tried_for_a_plan_again() -> None:
    head_plan._plans.clear()
    reader = CheckedReader(DriverConfig())
    lines = b"Host: h\r\ncontent-type: application/cloudevents+json\r\nx: %d\r\ncontent-length: %d"
    for number in range(5):
        data = b"POST /c HTTP/1.1\r\n" + lines % (number, len(BODY)) + b"\r\n\r\n" + BODY
        reader.read(data, 0)
        request = reader.take()
        with patch("web.ingress.view.planned", planned if number < 4 else None):
            assert record_of(request) == to_record(request.pairs(), BODY)
    assert request.plan
