"""What a client decides without a request: which answers it repeats, when, and what is an event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cloudevents.core.v1.event import CloudEvent

from knative.errors import UsageError
from penstock import Client, event
from penstock.client import Answer, address_of
from penstock.events import as_event, content_type_of, to_message


@pytest.mark.parametrize("status", [0, 408, 429, 500, 501, 502, 503, 504, 599])
def test_answer_that_may_pass_is_repeated(status: int) -> None:
    assert Answer(status).again


@pytest.mark.parametrize("status", [200, 202, 204, 301, 400, 401, 403, 404, 405, 409, 413, 415])
def test_answer_that_will_stay_is_not_repeated(status: int) -> None:
    assert not Answer(status).again


@pytest.mark.parametrize(
    ("tries", "retry_after", "wait_s"),
    [(1, None, 0.2), (2, None, 0.4), (3, None, 0.8), (20, None, 30.0), (1, "7", 7.0), (1, "900", 30.0),
     (1, "soon", 0.2), (1, "Thu, 01 Jan 1970 00:01:45 GMT", 5.0), (5, "1", 3.2)],
)  # fmt: skip
def test_wait_doubles_and_retry_after_counts(tries: int, retry_after: str | None, wait_s: float) -> None:
    assert Answer(503, "", retry_after).wait_s(tries, 0.0, 100.0) == pytest.approx(wait_s)
    assert Answer(503, "", retry_after).wait_s(tries, 0.5, 100.0) == pytest.approx(wait_s * 1.05)


@pytest.mark.parametrize(
    ("data", "body", "kind"),
    [
        ({"a": 1}, b'{"a": 1}', "application/json"),
        ([1, True], b"[1, true]", "application/json"),
        (7, b"7", "application/json"),
        ("hello", b"hello", "text/plain"),
        (b"\xff\x00", b"\xff\x00", "application/octet-stream"),
        (b"[1]", b"[1]", "application/json"),
        (None, b"", None),
    ],
)
def test_data_becomes_a_body_with_its_type(data: object, body: bytes, kind: str | None) -> None:
    headers, sent = to_message(event(data, type="t", source="/s"))
    assert sent == body
    assert headers.get("content-type") == kind


def test_given_content_type_stays() -> None:
    assert to_message(event([1], type="t", source="/s", datacontenttype="application/x"))[0]["content-type"] == (
        "application/x"
    )


def test_attributes_have_defaults_and_are_text() -> None:
    made = event(type="t", source="/s", express=True, amount=120, subject=None)
    assert made.get_extension("express") == "true"
    assert made.get_extension("amount") == "120"
    assert made.get_subject() is None
    assert len(made.get_id()) == 36
    time = made.get_time()
    assert time is not None
    assert time <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"type": "t"}, "source"),
        ({"type": "t", "source": "/s", "Bad": "x"}, "Bad"),
        ({"type": "", "source": "/s"}, "type"),
    ],
)
def test_what_is_not_an_event_is_named(attributes: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=f"This is not a valid CloudEvent: .*{says}"):
        as_event(attributes, None, {})


def test_event_is_given_in_three_ways() -> None:
    given = CloudEvent({"type": "t", "source": "/s"})
    assert as_event(given, None, {}) is given
    assert as_event({"type": "t", "source": "/s", "data": "x"}, None, {}).get_data() == "x"
    assert as_event(None, "x", {"type": "t", "source": "/s"}).get_data() == "x"
    with pytest.raises(UsageError, match="cannot be combined"):
        as_event(given, None, {"type": "t"})


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b'{"a": 1}', "application/json"), (b"hello", "text/plain"), (b"\xff\x00", "application/octet-stream")],
)
def test_content_types_are_guessed(body: bytes, kind: str) -> None:
    assert content_type_of(body) == kind


def test_address_is_valid_or_an_error_without_secrets() -> None:
    assert address_of("broker", "default/shop", "https://h:1/") == "https://h:1/brokers/default/shop"
    with pytest.raises(UsageError, match="'shop' is not a valid broker name"):
        Client.broker("localhost:8080", "shop")
    with pytest.raises(UsageError, match="has a user or a password") as error:
        Client("http://someone:hidden@h/")
    assert "hidden" not in str(error.value)
    with pytest.raises(UsageError, match=r"none\.pem is not a readable PEM file"):
        Client("https://h/", ca="none.pem")
