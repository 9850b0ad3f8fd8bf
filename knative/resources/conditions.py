"""Conditions as the Kubernetes API knows them, and how several make one.

Refuses to know which conditions a kind has, and to read a clock: the time of a transition comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. `reason` is CamelCase, `message` a sentence that says the cure; both may be empty when True."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition: str = ""  #: RFC 3339; filled in by `with_transitions`

    def as_dict(self) -> dict[str, str]:
        """The JSON shape of the API; empty fields left out."""
        pairs = {
            "type": self.type,
            "status": self.status.value,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.last_transition,
        }
        return {name: value for name, value in pairs.items() if value}


def true(type_: str, reason: str = "", message: str = "") -> Condition:
    """It holds."""
    return Condition(type_, ConditionStatus.TRUE, reason, message)


def false(type_: str, reason: str, message: str) -> Condition:
    """It does not hold, and a person or another part has to act."""
    return Condition(type_, ConditionStatus.FALSE, reason, message)


def unknown(type_: str, reason: str, message: str) -> Condition:
    """It is under way, or nobody has said yet."""
    return Condition(type_, ConditionStatus.UNKNOWN, reason, message)


def ready(parts: Sequence[Condition]) -> Condition:
    """`Ready` of its parts: the first False decides, else the first Unknown, else it is True."""
    for status in (ConditionStatus.FALSE, ConditionStatus.UNKNOWN):
        for part in parts:
            if part.status is status:
                return Condition("Ready", status, part.reason, part.message)
    return Condition("Ready", ConditionStatus.TRUE)


def with_note(found: Condition, notes: Iterable[Condition]) -> Condition:
    """`found`; when it is True, with the reason of the first of `notes` that has one: people look at `Ready` only."""
    note = next((one for one in notes if one.reason), None)
    if found.status is not ConditionStatus.TRUE or note is None:
        return found
    return replace(found, reason=note.reason, message=note.message)


def with_transitions(conditions: Iterable[Condition], before: Iterable[Condition], now: str) -> tuple[Condition, ...]:
    """`conditions` with the time of their last change of status: kept from `before` where the status is the same."""
    known = {condition.type: condition for condition in before}
    return tuple(replace(new, last_transition=_since(new, known.get(new.type), now)) for new in conditions)


def _since(new: Condition, old: Condition | None, now: str) -> str:
    return old.last_transition if old is not None and old.status is new.status and old.last_transition else now
