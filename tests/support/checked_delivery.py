"""A delivery for tests that raises an error for a change of state that the table does not allow."""

from __future__ import annotations

from agents.ordering.partition import Delivery
from agents.ordering.state import TRANSITIONS, DeliveryState


class CheckedDelivery(Delivery):
    """A delivery whose changes of state are checked against the table, each one."""

    __slots__ = ("_state",)

    @property
    def state(self) -> DeliveryState:
        return self._state

    @state.setter
    def state(self, state: DeliveryState) -> None:
        before = getattr(self, "_state", None)
        assert before is None or state in TRANSITIONS[before], f"{before} -> {state}"
        self._state: DeliveryState = state
