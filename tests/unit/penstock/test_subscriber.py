"""What a subscriber answers, and what the answer means to Penstock."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest

from knative.delivery.verdicts import Delivered, FinalFailure, Reply, RetryableFailure, decide
from penstock import Reject, Retry, Subscriber, event
from penstock.subscriber import Answer, Handler

_EVENT = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
_JSON = (b"content-type", b"application/json")
_STRUCTURED = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}}'


def _answer(
    handler: Handler, pairs: Sequence[tuple[bytes, bytes]] = _EVENT, body: bytes = b"", **options: Any
) -> Answer:
    return asyncio.run(Subscriber(handler, **options).answer(pairs, body))


def _raising(problem: Exception) -> Handler:
    def handler(_: Any) -> None:
        raise problem

    return handler


def _verdict(answer: Answer) -> Any:
    pairs = [(name.encode(), value.encode()) for name, value in answer.headers]
    return decide(answer.status, pairs, answer.body)


def _done(_: Any) -> None:
    """Nothing is left to do."""


@pytest.mark.parametrize(
    ("handler", "status", "means"),
    [
        (_done, 204, Delivered),
        (lambda _: event({"b": 2}, type="u", source="/r"), 200, Reply),
        (lambda _: {"type": "u", "source": "/r"}, 200, Reply),
        (_raising(Reject("no such customer")), 400, FinalFailure),
        (_raising(Retry("later")), 503, RetryableFailure),
        (_raising(OSError("the database is away")), 500, RetryableFailure),
        (lambda _: 200, 500, RetryableFailure),
        (lambda _: {"type": "u"}, 500, RetryableFailure),
    ],
    ids=["nothing", "event", "mapping", "reject", "retry", "exception", "number", "bad reply"],
)
def test_end_of_a_handler_decides_the_answer(handler: Handler, status: int, means: type) -> None:
    answer = _answer(handler)
    assert answer.status == status
    assert isinstance(_verdict(answer), means)


def test_answer_says_why() -> None:
    assert _answer(_raising(Reject("no such customer"))).body == b"no such customer"
    assert _answer(_raising(OSError("away"))).body == b"OSError: away"
    assert _answer(lambda _: 200).body.startswith(b"UsageError: A handler returned int. Return None, or an event")
    assert dict(_answer(_raising(Retry("later", after_s=2.1))).headers)["retry-after"] == "3"


@pytest.mark.parametrize("in_thread", [True, False])
def test_functions_may_be_async_or_not(in_thread: bool) -> None:
    seen = []

    async def slow(given: Any) -> None:
        await asyncio.sleep(0)
        seen.append(given.get_id())

    assert _answer(slow, in_thread=in_thread).status == 204
    assert _answer(lambda given: seen.append(given.get_id()), in_thread=in_thread).status == 204
    assert seen == ["1", "1"]


@pytest.mark.parametrize(
    ("pairs", "body", "data"),
    [
        ([*_EVENT, _JSON], b'{"a": 1}', {"a": 1}),
        ([*_EVENT, _JSON], b"", None),
        ([*_EVENT, (b"content-type", b"text/plain")], b"x", "x"),
        ([*_EVENT, (b"content-type", b"image/png")], b"\xff", b"\xff"),
        ([(b"Content-Type", b"application/cloudevents+json")], _STRUCTURED, {"a": 1}),
        ([(b"CE-" + name[3:], value) for name, value in _EVENT], b"", None),
        ([*_EVENT[:3], (b"ce-specversion", b"0.3")], b"", None),
    ],
)
def test_events_are_read_in_every_form(pairs: Sequence[tuple[bytes, bytes]], body: bytes, data: object) -> None:
    seen: list[Any] = []
    assert _answer(seen.append, pairs, body).status == 204
    assert (seen[0].get_id(), seen[0].get_data()) == ("1", data)


def test_attributes_are_decoded() -> None:
    seen: list[Any] = []
    more = [(b"ce-subject", b"%C3%BC"), (b"ce-time", b"2026-01-02t03:04:05.1234567z"), (b"ce-amount", b"7")]
    _answer(seen.append, [*_EVENT, *more])
    assert seen[0].get_subject() == "ü"
    assert seen[0].get_time().isoformat() == "2026-01-02T03:04:05.123456+00:00"
    assert seen[0].get_extension("amount") == "7"


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (_EVENT[1:], "attribute 'id' is missing"),
        ([], "attribute 'specversion' is missing, and so are all others: they belong in headers such as ce-type, or "),
        ([(b"content-type", b"application/cloudevents-batch+json")], "batches are not accepted"),
    ],
)
def test_what_is_not_an_event_never_comes_again(pairs: list[tuple[bytes, bytes]], says: str) -> None:
    answer = _answer(_done, pairs)
    assert answer.status == 400
    assert says in answer.body.decode()


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ([b"Bearer secret"], 204), ([b"Bearer other"], 401), ([b"secret"], 401), ([], 401),
        ([b"Bearer secret", b"Bearer secret"], 401),
    ],
)  # fmt: skip
def test_token_must_be_the_one(given: list[bytes], status: int) -> None:
    pairs = [*_EVENT, *((b"Authorization", value) for value in given)]
    assert _answer(_done, pairs, token="secret").status == status


def test_event_that_comes_again_gets_the_same_answer() -> None:
    answers = iter([OSError("away"), {"id": "r", "type": "u", "source": "/r"}])

    def handler(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def work() -> list[Answer]:
        subscriber = Subscriber(handler, remember=2)
        return [await subscriber.answer(_EVENT, b"") for _ in range(3)]

    failed, reply, again = asyncio.run(work())
    assert (failed.status, reply.status) == (500, 200), "what failed is handled again"
    assert again == reply


def test_event_that_comes_while_it_is_handled_comes_later() -> None:
    async def work() -> list[int]:
        release = asyncio.Event()

        async def handler(_: Any) -> None:
            await release.wait()

        subscriber = Subscriber(handler, remember=2)
        first = asyncio.create_task(subscriber.answer(_EVENT, b""))
        await asyncio.sleep(0)
        second = await subscriber.answer(_EVENT, b"")
        assert isinstance(_verdict(second), RetryableFailure)
        cancelled = asyncio.create_task(subscriber.answer([(b"ce-id", b"2"), *_EVENT[1:]], b""))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        release.set()
        after = await subscriber.answer([(b"ce-id", b"2"), *_EVENT[1:]], b"")
        return [(await first).status, second.status, after.status]

    assert asyncio.run(work()) == [204, 409, 204]


def test_no_more_answers_are_kept_than_asked_for() -> None:
    seen = []

    async def work() -> None:
        subscriber = Subscriber(lambda given: seen.append(given.get_id()), remember=2, in_thread=False)
        for event_id in (b"1", b"2", b"3", b"3", b"2", b"1"):
            await subscriber.answer([(b"ce-id", event_id), *_EVENT[1:]], b"")

    asyncio.run(work())
    assert seen == ["1", "2", "3", "1"]


def _asgi(messages: list[dict[str, Any]], method: str = "POST", **options: Any) -> list[MutableMapping[str, Any]]:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": messages[0]["type"].partition(".")[0], "method": method, "headers": [*_EVENT, _JSON]}
    asyncio.run(Subscriber(_raising(Reject("no")), **options)(scope, receive, send))
    return sent


def test_asgi_puts_the_body_together_and_answers() -> None:
    start, body = _asgi([
        {"type": "http.request", "body": b'{"a"', "more_body": True},
        {"type": "http.request", "body": b": 1}"},
    ])  # fmt: skip
    assert start["status"] == 400
    assert (b"content-length", b"2") in start["headers"]
    assert body == {"type": "http.response.body", "body": b"no"}


def test_asgi_has_limits() -> None:
    assert _asgi([{"type": "http.request"}], "GET")[0]["status"] == 405
    large = {"type": "http.request", "body": b"x" * 11, "more_body": True}
    assert _asgi([large], event_bytes_max=10)[0]["status"] == 413
    assert _asgi([{"type": "http.request", "more_body": True}, {"type": "http.disconnect"}]) == []
    with pytest.raises(ValueError, match="not websocket"):
        _asgi([{"type": "websocket.connect"}])


def test_asgi_starts_and_stops() -> None:
    sent = _asgi([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
