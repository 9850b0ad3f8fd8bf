"""Each row of the delivery table through real HTTP: one event, a subscription per row, a scripted subscriber.

All rows share one worker and one event; the fixture waits until every row has settled it, then each test looks.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Message

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.scripted_server import reply
from tests.support.subscriber import Request, ScriptedSubscriber, says
from tests.system.delivery_rows import ALL, RETRY, ROWS, Row
from tests.system.sending import LIMIT_S, post

pytestmark = pytest.mark.system

EVENT_ID, BODY = "the-event", b'[1,  true, "\xff"]'
EXTRA = ("ce-note", "a%20b")
DELIVERY = {"retry": RETRY, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the event."""

    installation: Installation
    subscriber: ScriptedSubscriber
    dead: dict[str, list[Message]]  #: by Subscription name


def _wanted(row: Row, subscriber: ScriptedSubscriber) -> Wanted:
    uri = row.uri.format(port=subscriber.port) or subscriber.script(f"/{row.name}", *row.answers)
    reply = subscriber.script(f"/{row.name}/reply", *row.reply) if row.reply is not None else None
    return Wanted(row.name, uri, delivery={**DELIVERY, **row.delivery}, reply=reply)


def _others(subscriber: ScriptedSubscriber) -> list[Wanted]:
    """Subscriptions whose dead letters do not go the usual way."""
    bad = subscriber.script("/always-bad", says(400, b"bad"))
    good_sink = subscriber.script("/sink", says(503), says(200))
    bad_sink = subscriber.script("/bad-sink", says(500))
    return [
        Wanted("to-sink", bad, delivery={**DELIVERY, "deadLetterSink": {"uri": good_sink}}),
        Wanted("to-bad-sink", bad, delivery={**DELIVERY, "deadLetterSink": {"uri": bad_sink}}),
        Wanted("ignored", bad, delivery=DELIVERY, annotations={"penstock.dev/exhausted": "ignore"}),
        Wanted("no-retry", subscriber.script("/no-retry", says(500)), delivery={"backoffDelay": "PT0.05S"}),
        Wanted("big-answer", subscriber.script("/big-answer", says(400, b"\x00" * 5000)), delivery=DELIVERY),
    ]


def _letters(installation: Installation) -> dict[str, list[Message]]:
    dead: dict[str, list[Message]] = {}
    for message in reader.records(installation.bootstrap, installation.resources.dlq_topic):
        name = reader.header(message, "penstock-subscription").removeprefix(f"{NAMESPACE}/")
        dead.setdefault(name, []).append(message)
    return dead


@pytest.fixture(scope="module")
def outcome(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """One worker, one event, all rows settled."""
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("answers"))
    with ScriptedSubscriber() as subscriber:
        subscriptions = [*(_wanted(row, subscriber) for row in ROWS), *_others(subscriber)]
        installation.write(subscriptions)
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(subscriptions), LIMIT_S)
            fallback = installation.beside("fallback")
            of_channel = {"retry": 5, "deadLetterSink": {"uri": subscriber.script("/channel-sink", says(200))}}
            bad = subscriber.script("/fallback", says(500))
            fallback.write([Wanted("fallback", bad, delivery={"retry": 1, "backoffDelay": "PT0.05S"})], of_channel)
            fallback.wait_subscribers(worker, 1, LIMIT_S)
            assert post(worker.port, fallback.resources.path, EVENT_ID, BODY).status == 202
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            assert post(worker.port, target, EVENT_ID, BODY, [EXTRA]).status == 202
            installation.wait_settled([subscription.name for subscription in subscriptions], LIMIT_S)
            fallback.wait_settled(["fallback"], LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        yield Outcome(installation, subscriber, _letters(installation))


def _check_request(request: Request) -> None:
    assert request.body == BODY
    assert {"id": EVENT_ID, "note": "a%20b", "specversion": "1.0"}.items() <= request.attributes.items()
    assert request.header("prefer") == "reply"
    assert request.header("kn-namespace") == NAMESPACE


def _check_letter(message: Message, destination: str, code: int, data: bytes) -> None:
    assert message.value() == BODY
    assert message.error() is None
    expected = {"ce_id": EVENT_ID, "ce_note": "a b", "ce_specversion": "1.0", "ce_source": "/test"}
    assert {name: reader.header(message, name) for name in expected} == expected
    assert reader.header(message, "ce_knativeerrordest") == destination
    assert reader.header(message, "ce_knativeerrorcode") == str(code)
    error_data = reader.header(message, "ce_knativeerrordata")
    assert len(error_data) <= 1024
    assert base64.b64decode(error_data) == data


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_subscriber_gets_the_requests_of_its_row(row: Row, outcome: Outcome) -> None:
    requests = outcome.subscriber.requests(f"/{row.name}")
    assert len(requests) == (0 if row.uri else row.attempts)
    for request in requests:
        _check_request(request)
    replies = outcome.subscriber.requests(f"/{row.name}/reply")
    assert len(replies) == row.reply_posts
    for sent in replies:
        assert (sent.attributes["id"], sent.attributes["type"]) == ("reply-1", "reply")
        # Binary replies leave as they came; the URI of a structured one is encoded.
        assert sent.attributes["source"] == ("/a%2520b" if row.name == "reply-structured" else "/a%20b")
        assert sent.body in (b"hi", b'{"n": 1}', b'{"n":1}')
    letters = outcome.dead.get(row.name, [])
    assert len(letters) == (row.code is not None)
    for letter in letters:
        path = f"/{row.name}/reply" if row.dead_at == "reply" else f"/{row.name}"
        destination = row.uri.format(port=outcome.subscriber.port) or outcome.subscriber.url(path)
        assert row.code is not None
        _check_letter(letter, destination, row.code, row.data)
        assert reader.header(letter, "penstock-attempts") == str(row.attempts)


def test_redirects_are_not_followed(outcome: Outcome) -> None:
    assert outcome.subscriber.requests("/elsewhere") == []


def test_dead_letter_says_where_it_came_from(outcome: Outcome) -> None:
    """Plain headers beside the event's own."""
    (letter,) = outcome.dead["status-503"]
    headers = {name: reader.header(letter, f"penstock-{name}") for name in ("topic", "partition", "offset", "attempts")}
    topic = outcome.installation.resources.topic
    assert headers == {"topic": topic, "partition": "0", "offset": "0", "attempts": str(ALL)}
    assert reader.header(letter, "penstock-subscription-uid") == outcome.installation.uid("status-503")
    assert "503" in reader.header(letter, "penstock-reason")
    times = [reader.header(letter, f"penstock-{which}-failure") for which in ("first", "last")]
    assert sorted(times) == times
    assert times[0] != times[1]


def test_dead_letter_sink_gets_the_event_with_its_error(outcome: Outcome) -> None:
    """Tried again like a subscriber; nothing in the DLQ topic then."""
    posts = outcome.subscriber.requests("/sink")
    assert len(posts) == 2
    for request in posts:
        assert request.body == BODY
        assert request.attributes["id"] == EVENT_ID
        assert request.attributes["knativeerrordest"] == outcome.subscriber.url("/always-bad")
        assert request.attributes["knativeerrorcode"] == "400"
        assert base64.b64decode(request.attributes["knativeerrordata"]) == b"bad"
    assert "to-sink" not in outcome.dead


def test_subscription_without_a_sink_has_that_of_its_channel(outcome: Outcome) -> None:
    """The rest of its `delivery` is its own: two attempts, not six."""
    assert len(outcome.subscriber.requests("/fallback")) == 2
    assert [request.attributes["id"] for request in outcome.subscriber.requests("/channel-sink")] == [EVENT_ID]


def test_dead_letter_sink_that_fails_is_followed_by_the_topic(outcome: Outcome) -> None:
    assert len(outcome.subscriber.requests("/bad-sink")) == ALL
    (letter,) = outcome.dead["to-bad-sink"]
    _check_letter(letter, outcome.subscriber.url("/always-bad"), 400, b"bad")


def test_what_is_to_be_ignored_is_dropped(outcome: Outcome) -> None:
    assert "ignored" not in outcome.dead
    assert len(outcome.subscriber.requests("/always-bad")) == 3  # to-sink, to-bad-sink, ignored


def test_delivery_without_retry_means_none(outcome: Outcome) -> None:
    assert len(outcome.subscriber.requests("/no-retry")) == 1
    assert len(outcome.dead["no-retry"]) == 1


def test_error_data_is_cut(outcome: Outcome) -> None:
    """At most 1,024 characters of base64."""
    (letter,) = outcome.dead["big-answer"]
    data = reader.header(letter, "ce_knativeerrordata")
    assert 0 < len(data) <= 1024
    assert set(base64.b64decode(data)) == {0}


def test_stale_connection_costs_no_attempt(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kept alive, then closed before any byte of the second answer: sent again at once, though retry is 0."""
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("stale"))
    with ScriptedSubscriber() as subscriber:
        uri = subscriber.script("/stale", says(200), reply(keep=False), says(200))
        installation.write([Wanted("stale", uri, delivery={"retry": 0})])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            fallback = installation.beside("fallback")
            of_channel = {"retry": 5, "deadLetterSink": {"uri": subscriber.script("/channel-sink", says(200))}}
            bad = subscriber.script("/fallback", says(500))
            fallback.write([Wanted("fallback", bad, delivery={"retry": 1, "backoffDelay": "PT0.05S"})], of_channel)
            fallback.wait_subscribers(worker, 1, LIMIT_S)
            assert post(worker.port, fallback.resources.path, EVENT_ID, BODY).status == 202
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            for number in (1, 2):
                assert post(worker.port, target, f"e{number}").status == 202
                wait_until("it came", lambda number=number: len(subscriber.requests("/stale")) >= number, LIMIT_S)  # type: ignore[misc]
                installation.wait_settled(["stale"], LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        assert [request.attributes["id"] for request in subscriber.requests("/stale")] == ["e1", "e2", "e2"]
    assert _letters(installation) == {}
