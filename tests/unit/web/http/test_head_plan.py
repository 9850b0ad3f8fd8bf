"""Heads that a plan matches are read as the parser reads them, and plans are made where they help."""

from __future__ import annotations

import gc

import pytest

from knative import memo
from tests.unit.web.http.checked_states import CheckedReader
from tests.unit.web.http.reading import CONFIG, learn, post_with, read_all
from web.http import head_plan
from web.http.config import DriverConfig
from web.http.request_reader import COMPLETE

#: Values that differ from one request to the next; then what only the parser may decide.
GOOD = {b"Host": (b"a", b"b:8"), b"Content-Length": (b"2", b"13"), b"ce-id": (b"1", b"22"), b"x": (b"y", b'a "%" b')}
VALUES = [
    b"",
    b" ",
    b"z",
    b" z",
    b"z ",
    b"a\tb",
    b"a\rb",
    b"a\nb",
    b"a\0b",
    b"\x7f",
    b"\xc3\xa4",
    b"\xff",
    b"z\r\ny: 1",
    b"z\r\n y",
]
VALUES += [
    b"z\r\n\r\n",
    b"b c",
    b"[",
    b"[::1]:80",
    b"0",
    b"02",
    b"+2",
    b"-2",
    b"1_0",
    b"2 ",
    b"2,2",
    b"300",
    b"9" * 19,
    b"0" * 18 + b"2",
    b"2\r\nx: 1",
]


def assert_read_as_by_the_parser(request: bytes) -> None:
    for cut in (len(request), len(request) - 1, 30):
        assert read_all(request, False, cut) == read_all(request, True, cut), request


@pytest.mark.parametrize("name", GOOD)
def test_value_that_differs_is_accepted_and_read_as_by_the_parser(name: bytes) -> None:
    heads = [{key: values[which] for key, values in GOOD.items()} for which in (0, 1)]
    for value in VALUES:
        for body in (b"", b"xy", b"xyz", post_with(heads[0], b"xy")):
            learn(*heads)
            assert_read_as_by_the_parser(post_with({**heads[0], name: value}, body))


@pytest.mark.parametrize("form", [b"%b", b"%bz", b"z%b", b"a%bz", b"\xc3%b"])
def test_value_is_matched_if_the_parser_accepts_each_byte(form: bytes) -> None:
    """White space at the ends does not belong to the value, and is left to the parser."""
    heads = [{b"Host": b"a", b"x": x} for x in (b"1", b"2")]
    learn(*heads)
    (plan,) = head_plan._plans.values()
    assert plan
    for code in range(256):
        data = post_with({b"Host": b"a", b"x": form % bytes((code,))}, b"")
        request = read_all(data, True)[0]
        as_sent = not isinstance(request, int) and request[3][1][1] == form % bytes((code,))
        matched = plan.match(data, 0)
        assert (matched is not None and matched[1] == len(data)) == as_sent, code


@pytest.mark.parametrize(
    "line",
    [
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Encoding", b"identity"),
        (b"Upgrade", b"websocket"),
        (b"Connection", b"close"),
        (b"Connection", b"Keep-Alive"),
        (b"connection", b"upgrade, close"),
        (b"Proxy-Connection", b"close"),
        (b"Host", b"a"),
        (b"x", b"a\tb"),
    ],
)
def test_line_with_a_meaning_is_read_as_by_the_parser(line: tuple[bytes, bytes]) -> None:
    heads = [{b"Host": b"a", b"ce-id": number, line[0]: line[1]} for number in (b"1", b"2", b"3")]
    learn(*heads[:2])
    for body in (b"", b"2\r\nxy\r\n0\r\n\r\n"):
        assert_read_as_by_the_parser(post_with(heads[2], body))


def test_connection_that_is_kept_does_not_teach_one_that_ends() -> None:
    heads = [{b"Host": b"a", b"Connection": value} for value in (b"keep-alive", b"Keep-Alive", b"close")]
    learn(*heads[:2])
    assert_read_as_by_the_parser(post_with(heads[2], b""))


def test_client_that_waits_for_continue_is_not_planned() -> None:
    heads = [{b"Host": b"a", b"Content-Length": b"2", b"Expect": b"100-continue", b"x": x} for x in (b"1", b"2", b"3")]
    learn(*heads[:2])
    reader = CheckedReader(CONFIG)
    reader.read(post_with(heads[2], b""), 0)
    assert reader.wants_continue()


def test_nothing_is_learned_where_the_parser_saw_other_lines() -> None:
    head, pairs = b"POST /c HTTP/1.1\r\nHost: a\r\nx: 1\r\n\r\n", [(b"Host", b"a"), (b"x", b"1")]
    key, _ = head_plan.find(head, 0)
    assert key == (b"POST /c HTTP/1.1", b"Host", b"x")
    for url, seen in ((b"/c", [*pairs, (b"y", b"2")]), (b"/d", pairs)):
        head_plan._plans.clear()
        for _ in range(3):
            head_plan.learn(key, head, url, seen, True)
        assert not head_plan._plans[key]


def test_limits_hold_for_planned_requests() -> None:
    heads = [{b"Host": b"a", **{b"x%d" % at: number for at in range(8)}} for number in (b"1", b"2", b"3")]
    head_plan._plans.clear()
    for values in (*heads[:2], *heads[:2]):
        read_all(post_with(values, b""), False, config=DriverConfig())
    assert read_all(post_with(heads[2], b""), False) == [431]
    learn({b"Host": b"a", b"x": b"1"}, {b"Host": b"a", b"x": b"2"})
    assert read_all(post_with({b"Host": b"a", b"x": b"3" * 500}, b""), False) == [431]


@pytest.mark.parametrize(
    "line",
    [
        b"x: @",
        b"x: \xc3\xa4@",
        b'x: "a b\tc" 100% @',
        b"Connection: Keep-Alive",
        b"Connection: close",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A@",
    ],
)
def test_request_like_three_others_needs_no_parser(line: bytes) -> None:
    def request(number: int) -> bytes:
        return (b"POST /c?a HTTP/1.1\r\nHost: a\r\nce-id: @\r\n%b\r\ncontent-length: 2\r\n\r\nab" % line).replace(
            b"@", b"%d" % number
        )

    head_plan._plans.clear()
    for number in range(3):
        read_all(request(number), False)
    reader = CheckedReader(CONFIG)
    reader._parser = None  # type: ignore[assignment]
    taken = []
    for part in (request(3), request(4)[:-1], request(4)[-1:], request(5) + request(6)):
        at = 0
        while at < len(part):
            at = reader.read(part, at)
            if reader.state is COMPLETE:
                taken.append(reader.take())
    keep = line != b"Connection: close"
    assert [(request.pairs()[1], request.body, request.keep) for request in taken] == [
        ((b"ce-id", b"%d" % number), b"ab", keep) for number in range(3, 7)
    ]
    assert all(request.plan for request in taken)


@pytest.mark.parametrize(
    "before",
    [b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\nab"],
)
def test_planned_request_takes_nothing_from_the_one_before(before: bytes) -> None:
    heads = [{b"Host": b"a", b"Content-Length": b"3", b"x": x} for x in (b"1", b"2")]
    learn(*heads)
    reader = CheckedReader(CONFIG)
    reader.read(b"POST /c HTTP/1.1\r\nHost: a\r\n" + before, 0)
    assert reader.take().body == b"ab"
    for part in (post_with(heads[0], b""), b"xyz"):
        reader.read(part, 0)
        assert not reader.wants_continue()
    assert reader.take().body == b"xyz"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /c HTTP/1.1",
        b"POST /c HTTP/1.0",
        b"POST http://b/c HTTP/1.1",
        b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"POST /c HTTP/1.1\r\nTransfer-Encoding: Chunked",
        b"POST /c HTTP/1.1\r\nExpect: 100-continue",
        b"POST /c HTTP/1.1\r\ncontent-encoding: identity",
        b"POST /c HTTP/1.1\r\nProxy-Connection: close",
        b"POST /c HTTP/1.1" + b"\r\nx: y" * 48,
        b"POST /c HTTP/1.1\r\nx: " + b"y" * 4096,
    ],
)
def test_no_plan_is_made_where_none_can_be(head: bytes) -> None:
    head_plan._plans.clear()
    data = head + b"\r\nHost: a\r\n\r\n"
    for _ in range(3):
        read_all(data, False, config=DriverConfig())
    assert head_plan.find(data, 0) == (None, None)
    assert not any(head_plan._plans.values())


def test_no_plan_is_made_for_what_came_once() -> None:
    """A query may be another one each time, and to make a plan takes as long as the parser."""
    head_plan._plans.clear()
    for number in range(10):
        read_all(b"POST /c?%d HTTP/1.1\r\nHost: a\r\n\r\n" % number, False)
    assert set(head_plan._plans.values()) == {None}


def test_plan_is_replaced_only_by_another_one() -> None:
    """A view has worked something out from it, and to make one takes as long as the parser."""
    learn(*({b"Host": b"a", b"ce-id": value} for value in (b"1", b"2")))
    (plan,) = head_plan._plans.values()
    for data in (
        post_with({b"Host": b"a", b"ce-id": b"\xc3\xa4"}, b""),
        post_with({b"Host": b"a", b"ce-id": b"3"}, b"") * 2,
    ):
        read_all(data, False)
        assert list(head_plan._plans.values()) == [plan]
    for start in (b"ce-id:", b"ce-id:  "):
        data = b"POST /c HTTP/1.1\r\nHost: a\r\n%b4\r\n\r\n" % start
        read_all(data, False)
        _, learned = head_plan.find(data, 0)
        assert learned
        assert learned.match(data, 0) == ([b"4"], len(data), True)


def test_plans_are_bounded() -> None:
    for number in range(3 * memo.SHAPES_MAX):
        read_all(b"POST /%d HTTP/1.1\r\nhost: a\r\n\r\n" % number, False)
        assert len(head_plan._plans) <= memo.SHAPES_MAX


def test_connections_hold_no_plans_of_their_own() -> None:
    """Thousands may be idle, each after requests with other header names: their plans would fill the memory."""
    head_plan._plans.clear()
    readers = []
    for number in range(2 * memo.SHAPES_MAX):
        reader = CheckedReader(CONFIG)
        for _ in range(3):
            reader.read(b"POST /c HTTP/1.1\r\nhost: a\r\nx%d: y\r\n\r\n" % number, 0)
            request = reader.take()
        assert request.plan, "the connection has used its plan"
        readers.append(reader)
    del request
    plans = [thing for thing in gc.get_objects() if isinstance(thing, head_plan.HeadPlan)]
    assert len(plans) <= memo.SHAPES_MAX < len(readers)
