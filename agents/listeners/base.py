"""What a listener of deliveries may hear, and how the listeners of one subscription are put together.

    started --> request, attempt --> failed --> (wait) trying --> request, attempt --> ... --> settled | abandoned
       |                                ^
       |            inherited ----------+   an earlier owner of the partition made the attempts
       +----------> request, delivered      the happy path: both the attempt and the end, in one call

Each started delivery ends with exactly one call of `delivered`, `settled` or `abandoned`. A listener overrides the
methods that it needs. `Hooks` binds these once, when the subscription starts; a hook without a listener is not called.
A listener does not decide anything. An exception in it is a bug, and ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from agents.offsets.partition import Delivery
from knative.delivery.attempt import Outcome, Settlement
from knative.ports import Headers

#: See `DeliveryListener.delivered`.
DeliveredHook = Callable[[Delivery, str, int, float, float], None]
#: See `DeliveryListener.request`.
RequestHook = Callable[[Delivery, str, int, Headers], Headers]


class DeliveryListener:
    """Follows the deliveries of one subscription. Event loop only. Here every method does nothing. URLs are as they are
    shown (`knative/urls`)."""

    def filtered(self, headers: Headers) -> None:
        """An event with these headers does not pass the filter: settled without being started."""

    def filter_exceeded(self, why: str) -> None:
        """The filter would need more than it may have for an event. `filtered` follows."""

    def started(self, delivery: Delivery) -> None:
        """The scheduler has started it: the first step in this process."""

    def request(self, delivery: Delivery, url: str, number: int, headers: Headers) -> Headers:
        """A request is about to be sent, attempt `number` (from 1). Returns the headers to send, with its own added."""
        return headers

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        """The first attempt in this process took `seconds` and has settled the event, which was stored `age_s` ago.
        Called in place of `attempt` and `settled`, when the answer is there and before the scheduler continues."""

    def attempt(self, delivery: Delivery, outcome: Outcome) -> None:
        """A request that `delivered` does not report has ended."""

    def aborted(self, delivery: Delivery) -> None:
        """A request was given up: its partition went to another owner, or the subscription has another destination."""

    def reply_dropped(self, delivery: Delivery) -> None:
        """The subscriber answered with an event, and the subscription has no `reply`."""

    def reply_stored(self, delivery: Delivery, headers: Headers, size: int) -> None:
        """The event in a Trigger's answer is in the broker's topic, with these headers and `size` bytes of data."""

    def failed(self, delivery: Delivery, outcome: Outcome, wait_s: float | None) -> None:
        """An attempt has failed, or its reply was not taken. The next one follows in `wait_s`; None = there is none."""

    def inherited(self, delivery: Delivery, attempts: int, due: float) -> None:
        """An earlier owner has made these attempts; the next one is due at `due` (Unix seconds)."""

    def trying(self, delivery: Delivery) -> None:
        """A retry has its slot and is about to be sent."""

    def not_stored(self, delivery: Delivery, topic: str, reason: str) -> None:
        """The DLQ topic does not accept the dead letter, which is tried again until it does."""

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        """It is settled, on any path but the happy one: stored `age_s` ago, with `failed` failed attempts."""

    def abandoned(self, delivery: Delivery) -> None:
        """It is left unsettled to the next owner of its partition."""

    def closed(self) -> None:
        """The subscription has stopped: nothing more is called."""


class Hooks:
    """The methods of a subscription's listeners, as one callable for each hook. Those of the happy path are None
    without a listener."""

    def __init__(self, listeners: Sequence[DeliveryListener]) -> None:
        filtered: list[Callable[[Headers], None]] = _overridden(listeners, "filtered")
        self.filtered = _each(filtered) if filtered else None
        self.filter_exceeded: Callable[[str], None] = _each(_overridden(listeners, "filter_exceeded"))
        started: list[Callable[[Delivery], None]] = _overridden(listeners, "started")
        self.started = _each(started) if started else None
        request: list[RequestHook] = _overridden(listeners, "request")
        self.request: RequestHook | None = reduce(_then_request, request) if request else None
        delivered: list[DeliveredHook] = _overridden(listeners, "delivered")
        self.delivered: DeliveredHook | None = reduce(_then_delivered, delivered) if delivered else None
        self.attempt: Callable[[Delivery, Outcome], None] = _each(_overridden(listeners, "attempt"))
        self.aborted: Callable[[Delivery], None] = _each(_overridden(listeners, "aborted"))
        self.reply_dropped: Callable[[Delivery], None] = _each(_overridden(listeners, "reply_dropped"))
        self.reply_stored: Callable[[Delivery, Headers, int], None] = _each(_overridden(listeners, "reply_stored"))
        self.failed: Callable[[Delivery, Outcome, float | None], None] = _each(_overridden(listeners, "failed"))
        self.inherited: Callable[[Delivery, int, float], None] = _each(_overridden(listeners, "inherited"))
        self.trying: Callable[[Delivery], None] = _each(_overridden(listeners, "trying"))
        self.not_stored: Callable[[Delivery, str, str], None] = _each(_overridden(listeners, "not_stored"))
        self.settled: Callable[[Delivery, Settlement, float, int], None] = _each(_overridden(listeners, "settled"))
        self.abandoned: Callable[[Delivery], None] = _each(_overridden(listeners, "abandoned"))
        self.closed: Callable[[], None] = _each(_overridden(listeners, "closed"))


def _overridden(listeners: Sequence[DeliveryListener], name: str) -> list[Any]:
    """Returns the bound methods of this name, without those of the base class."""
    base = getattr(DeliveryListener, name)
    return [getattr(listener, name) for listener in listeners if getattr(type(listener), name) is not base]


def _each(calls: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """Returns one callable that makes all these calls, in order."""
    if len(calls) == 1:
        return calls[0]

    def call(*arguments: object) -> None:
        for callback in calls:
            callback(*arguments)

    return call


# The two below are on the happy path: named arguments cost half of what `*arguments` costs.


def _then_delivered(first: DeliveredHook, second: DeliveredHook) -> DeliveredHook:
    def both(delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        first(delivery, url, status, seconds, age_s)
        second(delivery, url, status, seconds, age_s)

    return both


def _then_request(first: RequestHook, second: RequestHook) -> RequestHook:
    def both(delivery: Delivery, url: str, number: int, headers: Headers) -> Headers:
        return second(delivery, url, number, first(delivery, url, number, headers))

    return both
