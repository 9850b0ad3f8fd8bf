"""The client against an HTTP server that answers as it was told."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from knative.errors import UsageError
from penstock import Client, NotStoredError, Stored, event
from tests.support.certificates import Authority
from tests.support.processes import free_port
from tests.support.scripted_server import Step, reply
from tests.support.subscriber import Request, ScriptedSubscriber, says

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:aiohttp")


class _Ingress(ScriptedSubscriber):
    """Answers with the statuses that it was given, the last one for ever; 0 closes the connection."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.statuses, self.seen = [202], list[Request]()

    def take(self, request: Request) -> Step:
        self.seen.append(request)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        again = ("retry-after: 0",) if status in (429, 503) else ()
        reason = b"" if status == 202 else json.dumps({"error": f"says {status}"}).encode()
        return says(status, reason, *again) if status else reply(keep=False)


@pytest.fixture
def ingress() -> Iterator[_Ingress]:
    with _Ingress() as server:
        yield server


def _send(client: Client, way: str, **attributes: str) -> Stored:
    if way == "sync":
        with client:
            return client.send(**attributes)

    async def work() -> Stored:
        async with client:
            return await client.send_async(**attributes)

    return asyncio.run(work())


_BOTH = pytest.mark.parametrize("way", ["sync", "async"])


@_BOTH
def test_event_is_sent_until_it_is_stored(ingress: _Ingress, way: str) -> None:
    ingress.statuses = [503, 429, 0, 500, 408, 202]
    client = Client.channel(ingress.url(""), "ns/orders", token="secret", headers={"x-request-id": "7"})
    assert _send(client, way, id="e", type="t", source="/s") == Stored("e", "/s", "t", 6)
    assert len(ingress.seen) == 6
    assert {request.attributes["id"] for request in ingress.seen} == {"e"}
    request = ingress.seen[0]
    assert request.target == "/channels/ns/orders"
    assert (request.header("authorization"), request.header("x-request-id")) == ("Bearer secret", "7")


@_BOTH
@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (400, "Correct the event."),
        (401, "token=..."),
        (403, "token that may send to"),
        (404, "`penstock status`"),
        (413, "less data"),
    ],
)
def test_what_would_be_refused_again_is_not_repeated(ingress: _Ingress, way: str, status: int, fix: str) -> None:
    ingress.statuses = [status]
    with pytest.raises(NotStoredError) as error:
        _send(Client.broker(ingress.url(""), "ns/shop"), way, id="e", type="t", source="/s")
    assert len(ingress.seen) == 1
    assert f"The event 'e' was not stored: 127.0.0.1:{ingress.port} answered {status} (says {status})" in str(
        error.value
    )
    assert fix in str(error.value)
    assert (error.value.status, error.value.tries, error.value.event.get_id()) == (status, 1, "e")


@_BOTH
def test_limit_ends_the_repetition(ingress: _Ingress, way: str) -> None:
    ingress.statuses = [503]
    with pytest.raises(NotStoredError, match="Check that the worker runs, and send the same event again") as error:
        _send(Client(ingress.url(""), limit_s=0.5), way, type="t", source="/s")
    assert error.value.status == 503
    assert error.value.tries == len(ingress.seen) > 1


@_BOTH
def test_event_for_a_closed_port_is_not_stored(way: str) -> None:
    with pytest.raises(NotStoredError, match=r"127\.0\.0\.1:\d+ did not answer") as error:
        _send(Client(f"http://127.0.0.1:{free_port()}/", limit_s=0), way, type="t", source="/s")
    assert error.value.status == 0


@pytest.mark.parametrize(
    ("way", "path", "headers"),
    [
        ("sync", "/a b", {}),  # the other way quotes it
        ("sync", "/", {"x-secret": "canary\r\nx: y"}),
        ("async", "/", {"x-secret": "canary\r\nx: y"}),
    ],
    ids=["path", "header", "header, async"],
)
def test_what_http_does_not_allow_is_not_an_absent_worker(
    ingress: _Ingress, way: str, path: str, headers: dict[str, str]
) -> None:
    """And the sentence does not quote it: it may be a token."""
    with pytest.raises(UsageError, match="character that HTTP does not allow") as error:
        _send(Client(ingress.url("") + path, headers=headers), way, type="t", source="/s")
    assert "canary" not in str(error.value)
    assert ingress.seen == []


def test_many_events_stay_in_order_on_one_connection(ingress: _Ingress) -> None:
    events = [event([number], id=str(number), type="t", source="/s") for number in range(5)]
    with Client(ingress.url("")) as client:
        assert [stored.id for stored in client.send_many(events)] == ["0", "1", "2", "3", "4"]
    assert [request.body for request in ingress.seen] == [b"[0]", b"[1]", b"[2]", b"[3]", b"[4]"]

    async def work() -> list[Stored]:
        async with Client(ingress.url("")) as client:
            return await client.send_many_async(events[:2])

    assert [stored.id for stored in asyncio.run(work())] == ["0", "1"]


def test_first_that_is_refused_ends_many_and_says_what_is_stored(ingress: _Ingress) -> None:
    ingress.statuses = [202, 202, 400]
    events = [{"id": str(number), "type": "t", "source": "/s"} for number in range(5)]
    with (
        Client(ingress.url("")) as client,
        pytest.raises(NotStoredError, match="The event '2' was not stored") as error,
    ):
        client.send_many(events)
    assert [stored.id for stored in error.value.stored] == ["0", "1"]
    assert len(ingress.seen) == 3


@_BOTH
def test_certificate_is_trusted_by_its_ca_only(tmp_path: Path, way: str) -> None:
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("server").in_one())
    with _Ingress(context) as ingress:
        with pytest.raises(
            UsageError,
            match=r"The certificate of 127\.0\.0\.1:\d+ is not trusted .* Name the CA of the certificate: ca=",
        ):
            _send(Client(ingress.url("")), way, type="t", source="/s")
        client = Client(ingress.url(""), ca=authority.certificate)
        assert _send(client, way, type="t", source="/s").tries == 1


def test_token_that_is_no_header_is_not_shown(ingress: _Ingress) -> None:
    with Client(ingress.url(""), token="hid\nden") as client, pytest.raises(UsageError) as error:
        client.send(type="t", source="/s")
    assert "den" not in str(error.value)
    assert ingress.seen == []
