"""HTTPS to a subscriber: whose certificates are believed, and that a kept connection works as without TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from knative.delivery.verdicts import RetryableFailure
from tests.contract.posting import posting
from tests.support.scripted_server import ACCEPTED, ScriptedServer, forever, reply, reset, silence

pytestmark = pytest.mark.asyncio

FILES = Path(__file__).parent.parent / "data" / "tls"
CA = (FILES / "ca.pem").read_text(encoding="ascii")
OTHER_CA = (FILES / "other-ca.pem").read_text(encoding="ascii")
FINE = reply(ACCEPTED)


@pytest.fixture
def context() -> ssl.SSLContext:
    """What the server shows: a certificate for localhost, 127.0.0.1 and ::1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem", FILES / "server.key")
    return context


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_destination_s_ca_is_believed(context: ssl.SSLContext, host: str) -> None:
    async with ScriptedServer(FINE, tls=context) as server, posting(server.url(host=host), ca_certs=CA) as poster:
        for _ in range(5):
            assert (await poster.answer(b"event")).status == 202
        assert (await poster.answer(b"x" * 1_000_000)).status == 202
    assert len(server.connections) == 1
    assert len(server.requests) == 6


async def test_bundle_of_several_cas_trusts_each(context: ssl.SSLContext) -> None:
    async with ScriptedServer(FINE, tls=context) as server, posting(server.url(), ca_certs=OTHER_CA + CA) as poster:
        assert (await poster.answer()).status == 202


@pytest.mark.parametrize("ca_certs", ["", OTHER_CA], ids=["the system's", "another"])
async def test_another_ca_is_not_believed(context: ssl.SSLContext, ca_certs: str) -> None:
    async with ScriptedServer(FINE, tls=context) as server, posting(server.url(), ca_certs=ca_certs) as poster:
        got = await poster.answer()
    assert got.kind == "tls"
    assert isinstance(got.verdict, RetryableFailure)
    assert server.requests == []


async def test_certificate_for_another_name_is_not_believed(context: ssl.SSLContext) -> None:
    server = ScriptedServer(FINE, host="127.0.0.2", tls=context)
    async with server, posting(server.url(), ca_certs=CA) as poster:
        assert (await poster.answer()).kind == "tls"
    assert server.requests == []


@pytest.mark.parametrize("ca_certs", ["junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "é"])
async def test_bundle_that_cannot_be_read(context: ssl.SSLContext, ca_certs: str) -> None:
    async with ScriptedServer(FINE, tls=context) as server, posting(server.url(), ca_certs=ca_certs) as poster:
        assert (await poster.answer()).kind == "tls"


async def test_server_without_tls_is_a_tls_error() -> None:
    def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Speak HTTP\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, posting(f"https://127.0.0.1:{port}/", ca_certs=CA) as poster:
        assert (await poster.answer()).kind == "tls"


async def test_failures_are_the_same_over_tls(context: ssl.SSLContext) -> None:
    script = (
        FINE,
        reset(),
        FINE,
        silence(),
        forever(b"HTTP/1.1 200 OK\r\nce-id: 1\r\n\r\n", b"x" * 65_536),
        reset(),
        FINE,
    )
    async with ScriptedServer(*script, tls=context) as server, posting(server.url(), ca_certs=CA) as poster:
        assert (await poster.answer()).status == 202
        assert (await poster.answer()).status == 202, "a stale connection"
        assert (await poster.answer(timeout_s=0.2)).kind == "timeout"
        assert (await poster.answer()).kind == "read"
        assert (await poster.answer()).kind == "read"
        assert (await poster.answer()).status == 202
    assert len(server.connections) == 5
