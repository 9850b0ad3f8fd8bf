"""Who may send events to which channels and brokers, by bearer tokens. Pure; the one place that decides it.

Knows SHA-256 sums of tokens only. A token is looked up by its sum, so how long that takes says nothing about tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from knative import memo
from knative.contract.records import Channel

ALL = "*"
TOKEN_BYTES_MAX = 8192  #: a longer token is never valid
_SCHEME = b"bearer "


class Verdict(Enum):
    """Why a request has no sender."""

    NO_TOKEN = "no token"
    UNKNOWN_TOKEN = "unknown token"


@dataclass(frozen=True, slots=True)
class Sender:
    """One token: its name, and what it may send to as (kind, namespace, name); `*` is every name."""

    name: str
    targets: frozenset[tuple[str, str, str]]

    def may_send(self, channel: Channel) -> bool:
        """Returns whether it may send to this channel or broker."""
        where = (channel.kind, channel.namespace)
        return (*where, channel.name) in self.targets or (*where, ALL) in self.targets


class Senders:
    """All tokens. Remembers the known ones that clients send, because they repeat theirs and a sum takes longer."""

    def __init__(self, by_sum: Mapping[bytes, Sender]) -> None:
        """`by_sum`: SHA-256 of a token (32 bytes) -> its sender."""
        self._by_sum = dict(by_sum)
        self._known: dict[bytes, Sender] = {}

    def identify(self, authorization: bytes | None) -> Sender | Verdict:
        """Returns the sender of an Authorization header, or why there is none."""
        if authorization is None:
            return Verdict.NO_TOKEN
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return Verdict.NO_TOKEN
        token = authorization[len(_SCHEME) :].strip()
        sender = self._known.get(token)
        if sender is not None:
            return sender
        if len(token) > TOKEN_BYTES_MAX:
            return Verdict.UNKNOWN_TOKEN
        sender = self._by_sum.get(hashlib.sha256(token).digest())
        if sender is None:
            return Verdict.UNKNOWN_TOKEN
        if len(self._known) >= memo.ENTRIES_MAX:
            self._known.clear()
        self._known[token] = sender
        return sender


class Guesses:
    """Counts unknown tokens by client address. After `most` in `window_s` seconds, an address must wait."""

    _ADDRESSES_MAX = 4096

    def __init__(self, most: int = 10, window_s: float = 60.0) -> None:
        self._most, self._window_s = most, window_s
        self._counts: dict[str, tuple[float, int]] = {}  # address -> begin of its window, guesses in it

    def wait_s(self, address: str, now_s: float) -> float:
        """Count one; returns how long to wait, 0 = not at all."""
        begin_s, count = self._counts.get(address, (now_s, 0))
        if now_s - begin_s >= self._window_s:
            begin_s, count = now_s, 0
        if address not in self._counts and len(self._counts) >= self._ADDRESSES_MAX:
            del self._counts[next(iter(self._counts))]
        self._counts[address] = (begin_s, count + 1)
        return begin_s + self._window_s - now_s if count >= self._most else 0.0
