"""Streams of requests read as a connection does, by plans and by the parser alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from tests.unit.web.http.checked_states import CheckedReader
from web.http import head_plan
from web.http.config import DriverConfig, HttpRejection
from web.http.request_reader import BODY, COMPLETE, HEAD, IDLE

CONFIG = DriverConfig(event_bytes_max=200, header_bytes_max=300, header_count_max=8, url_bytes_max=180)


class Forgetful(dict[Any, Any]):
    """A table of plans that stays empty."""

    def __setitem__(self, key: Any, plan: Any) -> None:
        """Nothing is learned."""


def read_all(data: bytes, careful: bool, *cuts: int, config: DriverConfig = CONFIG) -> list[Any]:
    """What a connection would hand on: each whole request until one that ends it, then how it ended. `careful`: by the
    parser."""
    with patch.object(head_plan, "_plans", Forgetful() if careful else head_plan._plans):
        return _read_all(data, *cuts, config=config)


def _read_all(data: bytes, *cuts: int, config: DriverConfig) -> list[Any]:
    reader = CheckedReader(config)
    read: list[Any] = []
    for start, stop in pairwise((0, *sorted(cuts), len(data))):
        part = data[start:stop]
        at = 0
        while at < len(part):
            try:
                at = reader.read(part, at)
            except HttpRejection as refusal:
                return [*read, refusal.status]
            if reader.state is COMPLETE:
                request = reader.take()
                read.append(
                    (
                        request.method,
                        request.target,
                        request.host,
                        request.pairs(),
                        request.body,
                        request.keep,
                        request.head_bytes,
                    )
                )
                if not request.keep:
                    return [*read, "closed"]
    return [*read, {IDLE: "nothing", HEAD: "head", BODY: "body"}[reader.state]]


def post_with(values: Mapping[bytes, bytes], body: bytes, ending: bytes = b"\r\n\r\n") -> bytes:
    """A request with these header lines."""
    lines = [b"%b: %b" % line for line in values.items()]
    return b"\r\n".join([b"POST /c HTTP/1.1", *lines]) + ending + body


def learn(*heads: Mapping[bytes, bytes]) -> None:
    """Have these heads read, each twice, and nothing else."""
    head_plan._plans.clear()
    for values in heads:
        for _ in range(2):
            read_all(post_with(values, b"x" * int(values.get(b"Content-Length", 0))), False)
