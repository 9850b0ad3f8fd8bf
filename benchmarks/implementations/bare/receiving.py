"""Stores each CloudEvent that is POSTed and answers 202 when Kafka has acknowledged it: no checks, limits, metrics or
graceful end. It bounds from below what a receiver in Python costs, and is not one to use."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import httptools
import uvloop
from confluent_kafka import Producer

_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_LINGER_MS = 1
_POLL_S = 0.1


class Acknowledgements:
    """What a thread of its own hears from librdkafka, handed to the event loop once for each poll."""

    def __init__(self, producer: Producer, loop: asyncio.AbstractEventLoop) -> None:
        self._producer, self._loop = producer, loop
        self._answers: list[tuple[asyncio.Transport, bytes]] = []

    def note(self, transport: asyncio.Transport, error: object, _message: object) -> None:
        """The callback of a record; runs in that thread."""
        self._answers.append((transport, _REFUSED if error else _ACCEPTED))

    def run(self) -> None:
        """Until the process ends."""
        while True:
            self._producer.poll(_POLL_S)
            if self._answers:
                answers, self._answers = self._answers, []
                self._loop.call_soon_threadsafe(_write, answers)


def _write(answers: list[tuple[asyncio.Transport, bytes]]) -> None:
    for transport, answer in answers:
        transport.write(answer)


class Connection(asyncio.Protocol):
    """One keep-alive connection without pipelining."""

    def __init__(self, store: Callable[..., None], note: Callable[..., None]) -> None:
        self._store, self._note = store, note
        self._headers: list[tuple[str, bytes]] = []
        self._key: bytes | None = None
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # uvloop's transports are not subclasses of asyncio's.
        self._done = functools.partial(self._note, cast(asyncio.Transport, transport))
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, as all of the following."""
        lower = name.lower()
        if lower.startswith(b"ce-"):
            self._headers.append((f"ce_{lower[3:].decode()}", value))
            if lower == b"ce-partitionkey":
                self._key = value
        elif lower == b"content-type":
            self._headers.append(("content-type", value))

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._store(self._body, self._key, self._headers, self._done)
        self._headers, self._key, self._body = [], None, b""


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    if not environment["BENCH_TLS_CERT"]:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(environment["BENCH_TLS_CERT"], environment["BENCH_TLS_KEY"])
    return context


async def serve(kafka: str, topic: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Until the process ends."""
    loop = asyncio.get_running_loop()
    producer = Producer(
        {"bootstrap.servers": kafka, "acks": "all", "linger.ms": _LINGER_MS, "partitioner": "murmur2_random"}
    )

    def store(body: bytes, key: bytes | None, headers: list[Any], done: Callable[..., None]) -> None:
        producer.produce(topic, body, key, headers=headers, on_delivery=done)

    acknowledgements = Acknowledgements(producer, loop)
    threading.Thread(target=acknowledgements.run, daemon=True).start()
    server = await loop.create_server(lambda: Connection(store, acknowledgements.note), "127.0.0.1", port, ssl=tls)
    await server.serve_forever()


if __name__ == "__main__":
    given = {"BENCH_TLS_CERT": "", **os.environ}
    uvloop.run(serve(given["BENCH_KAFKA"], given["BENCH_TOPIC"], int(given["BENCH_PORT"]), _tls(given)))
