"""How the listeners of a subscription are put together: each hook calls those that have it, in order, and no others."""

from __future__ import annotations

from agents.listeners.base import DeliveryListener, Hooks
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.delivery.attempt import Settled, Settlement
from knative.ports import Headers

DELIVERY = Delivery(PartitionState("t", 0, OffsetTracker(0)), 0, None, b"", [], 1)
SETTLEMENT = Settlement(Settled.FILTERED)


class _Whole(DeliveryListener):
    """Hears everything of the happy path and the end."""

    def __init__(self, name: str, heard: list[object]) -> None:
        self.name, self.heard = name, heard

    def started(self, delivery: Delivery) -> None:
        self.heard.append((self.name, "started"))

    def request(self, delivery: Delivery, url: str, number: int, headers: Headers) -> Headers:
        return [*headers, (self.name, b"%d" % number)]

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        self.heard.append((self.name, "delivered", url, status, seconds, age_s))

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self.heard.append((self.name, settlement.settled, age_s, failed))


class _End(DeliveryListener):
    """Hears the end only."""

    def __init__(self, heard: list[object]) -> None:
        self.heard = heard

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self.heard.append("end")


def test_on_the_happy_path_nothing_is_called_where_there_is_no_listener() -> None:
    for hooks in (Hooks([]), Hooks([_End([]), DeliveryListener()])):
        assert (hooks.started, hooks.request, hooks.delivered) == (None, None, None)
        hooks.abandoned(DELIVERY)
        hooks.closed()


def test_one_listener_is_called_itself() -> None:
    whole = _Whole("one", [])
    hooks = Hooks([_End([]), whole])

    assert (hooks.started, hooks.request, hooks.delivered) == (whole.started, whole.request, whole.delivered)


def test_several_are_called_in_order() -> None:
    heard: list[object] = []
    hooks = Hooks([_Whole("one", heard), _End(heard), _Whole("two", heard), _Whole("three", heard)])
    assert hooks.started is not None
    assert hooks.request is not None
    assert hooks.delivered is not None

    hooks.started(DELIVERY)
    assert heard == [("one", "started"), ("two", "started"), ("three", "started")]
    heard.clear()
    assert hooks.request(DELIVERY, "u", 7, [("a", b"b")]) == [
        ("a", b"b"),
        ("one", b"7"),
        ("two", b"7"),
        ("three", b"7"),
    ]
    hooks.delivered(DELIVERY, "u", 202, 0.1, 2.0)
    assert heard == [(name, "delivered", "u", 202, 0.1, 2.0) for name in ("one", "two", "three")]
    heard.clear()
    hooks.settled(DELIVERY, SETTLEMENT, 2.0, 3)
    first, second, third = ((name, Settled.FILTERED, 2.0, 3) for name in ("one", "two", "three"))
    assert heard == [first, "end", second, third]
