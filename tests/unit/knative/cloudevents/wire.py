"""Requests as they are on the wire: as a subscriber's parser has them, and as ingress maps them by a plan."""

from __future__ import annotations

from collections.abc import Sequence

import httptools

from knative.cloudevents.http_binding import SAFE, Record, to_record
from knative.cloudevents.record_plan import planned
from web.http.head_plan import are_values

Pairs = Sequence[tuple[bytes, bytes]]


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


def record_like(former: Pairs, values: Sequence[bytes], varying: Sequence[int], body: bytes | None) -> Record:
    """The record of a request with these values at `varying`, that comes after a request with the `former` lines."""
    pairs = list(former)
    for at, value in zip(varying, values, strict=True):
        pairs[at] = (pairs[at][0], value)
    _, plan = planned(former, varying, body)
    stripped = [value.strip(b" \t") for value in values]
    if plan and are_values(b"\r".join(stripped)):  # others match no head plan
        record = plan.record(stripped, not b"".join(stripped).translate(None, SAFE), body)
        if record is not None:
            return record
    return to_record(pairs, body)


def record_of_lines(pairs: Pairs, body: bytes | None) -> Record:
    """The record of a request that comes after the same one."""
    return record_like(pairs, [value for _, value in pairs], range(len(pairs)), body)
