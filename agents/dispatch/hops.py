"""Counts how often an event comes back over the installation's own addresses, so that a loop ends.

A delivery to the address of a channel or broker of the contract stores the event there again. Like a reply it makes the
chain one longer: the request says how long the chain is then, and ingress stores that with the event. An event whose
chain is as long as is allowed is not sent; it becomes a dead letter. Other destinations do not see the count.

What is such an address changes with the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agents.dispatch.reply_store import depth_of
from agents.followed import Followed
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.contract.addresses import Addresses
from knative.contract.records import Channel
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import RETURNS, FinalFailure
from knative.ports import Headers

#: Makes a request: see `kafka_binding.to_request`.
Make = Callable[[bytes, Headers, bytes | None], bytes]

_LINE = b"\r\n%s: %%d" % REPLY_DEPTH.encode()


class TooManyHops(Exception):
    """The event must not be sent to an address of the installation any more."""

    def __init__(self, depth_max: int) -> None:
        super().__init__(depth_max)
        self.verdict = FinalFailure(508, f"more than {depth_max} replies and deliveries led to this event: {RETURNS}")


class OwnAddresses(Followed):
    """The addresses of the contract as they are now. Event loop only."""

    def __init__(self, channels: Iterable[Channel] = ()) -> None:
        super().__init__()
        self._addresses = Addresses(channels)

    def has(self, destination: Addressable) -> bool:
        """Returns whether an event that is sent there is stored in a channel or broker of the contract."""
        return self._addresses.channel_at(destination.uri) is not None

    def use(self, channels: Iterable[Channel]) -> None:
        """From the next attempt on, these are the channels and brokers."""
        self._addresses = Addresses(channels)
        self._has_changed()


class Hops:
    """The limit, and where it applies."""

    def __init__(self, depth_max: int, addresses: OwnAddresses) -> None:
        self.depth_max = depth_max
        self._addresses = addresses

    def counted(self, make: Make, destination: Addressable) -> Make:
        """Returns `make` for requests to `destination`. To an address of the installation they say how long the chain
        is, and it raises TooManyHops if it is too long."""
        if not self._addresses.has(destination):
            return make
        depth_max = self.depth_max

        def make_counted(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
            depth = depth_of(headers)
            if depth >= depth_max:
                raise TooManyHops(depth_max)
            return make(prefix + _LINE % (depth + 1), headers, value)

        return make_counted
