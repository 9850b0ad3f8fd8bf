"""An attribute of a state machine whose changes are checked against its table of transitions, each one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Generic, TypeVar

from agents.offsets.partition import Delivery
from agents.offsets.state import TRANSITIONS

S = TypeVar("S", bound=Enum)


class CheckedState(Generic[S]):
    """For a subclass in a test, in place of the attribute. The subclass must not have `__slots__`."""

    def __init__(self, transitions: Mapping[S, Collection[S]]) -> None:
        self._transitions = transitions

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = f"checked {name}"

    def __get__(self, instance: object, owner: type | None = None) -> S:
        state: S = vars(instance)[self._key]
        return state

    def __set__(self, instance: object, state: S) -> None:
        before = vars(instance).get(self._key)
        assert before is None or state in self._transitions[before], f"{before} -> {state}"
        vars(instance)[self._key] = state


class CheckedDelivery(Delivery):
    """A delivery whose changes of state are checked against the table, each one."""

    state = CheckedState(TRANSITIONS)
