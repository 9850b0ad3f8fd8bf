"""Refuses requests of senders that may not send: 401 without a known token, 403 for another channel, 429 for guessing.

A known token is never made to wait for the guesses of others at its address.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from knative.contract.records import Channel
from web.ingress import responses
from web.ingress.responses import Response
from web.ingress.senders import Guesses, Sender, Senders, Verdict

_NAME = b"authorization"


def authorization(pairs: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Returns the Authorization header of a request; None if there is none, or more than one."""
    values = [value for name, value in pairs if len(name) == len(_NAME) and name.lower() == _NAME]
    return values[0].strip() if len(values) == 1 else None


class Admission:
    """Decides who may send. `senders` may be replaced at any time. Event loop only."""

    def __init__(self, senders: Senders, now_s: Callable[[], float] = time.monotonic) -> None:
        self.senders = senders
        self._guesses = Guesses()
        self._now_s = now_s

    def sender(self, value: bytes | None, address: str) -> Sender | Response:
        """Returns the sender of a request with this Authorization header, or the answer 401 or 429."""
        identity = self.senders.identify(value)
        if isinstance(identity, Sender):
            return identity
        if identity is Verdict.UNKNOWN_TOKEN and (wait_s := self._guesses.wait_s(address, self._now_s())):
            return responses.too_busy("too many unknown tokens from this address", math.ceil(wait_s))
        return responses.NO_TOKEN if identity is Verdict.NO_TOKEN else responses.UNKNOWN_TOKEN

    @staticmethod
    def refuse(sender: Sender, channel: Channel) -> Response | None:
        """Returns the answer 403 if the sender may not send to this channel or broker."""
        return None if sender.may_send(channel) else responses.not_allowed(sender.name, channel.title)
