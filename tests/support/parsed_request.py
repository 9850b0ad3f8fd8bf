"""A request as a subscriber's HTTP parser reads it."""

from __future__ import annotations

import httptools


class Parsed:
    """What a subscriber's parser makes of a request."""

    def __init__(self, request: bytes) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.messages = 0
        httptools.HttpRequestParser(self).feed_data(request)
        assert self.messages == 1

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1
