"""Conditions of the Kubernetes API, and `Ready` as the summary of several."""

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
    """One condition. `reason` is CamelCase, `message` a sentence with a hint. Both may be empty if it is True."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition: str = ""  #: RFC 3339; filled in by `with_transitions`

    def as_dict(self) -> dict[str, str]:
        """Returns the JSON object of the API, without empty fields."""
        pairs = {
            "type": self.type,
            "status": self.status.value,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.last_transition,
        }
        return {name: value for name, value in pairs.items() if value}


def true(type_: str, reason: str = "", message: str = "") -> Condition:
    """Returns a condition that is True."""
    return Condition(type_, ConditionStatus.TRUE, reason, message)


def false(type_: str, reason: str, message: str) -> Condition:
    """Returns a condition that is False: a person or another component has to act."""
    return Condition(type_, ConditionStatus.FALSE, reason, message)


def unknown(type_: str, reason: str, message: str) -> Condition:
    """Returns a condition that is Unknown: in progress, or not reported yet."""
    return Condition(type_, ConditionStatus.UNKNOWN, reason, message)


def ready(parts: Sequence[Condition]) -> Condition:
    """Returns `Ready` of these conditions: the first False decides, else the first Unknown, else it is True."""
    for status in (ConditionStatus.FALSE, ConditionStatus.UNKNOWN):
        for part in parts:
            if part.status is status:
                return Condition("Ready", status, part.reason, part.message)
    return Condition("Ready", ConditionStatus.TRUE)


def with_note(condition: Condition, notes: Iterable[Condition]) -> Condition:
    """Returns `condition`. If it is True, it gets the first reason of `notes`, because people look at `Ready` only."""
    note = next((note for note in notes if note.reason), None)
    if condition.status is not ConditionStatus.TRUE or note is None:
        return condition
    return replace(condition, reason=note.reason, message=note.message)


def with_transitions(conditions: Iterable[Condition], before: Iterable[Condition], now: str) -> tuple[Condition, ...]:
    """Returns `conditions` with the time of their last change of status: kept from `before` if that is the same."""
    by_type = {condition.type: condition for condition in before}
    return tuple(replace(new, last_transition=_since(new, by_type.get(new.type), now)) for new in conditions)


def _since(new: Condition, old: Condition | None, now: str) -> str:
    return old.last_transition if old is not None and old.status is new.status and old.last_transition else now


def conditions_of(status: object) -> list[Condition]:
    """Returns the conditions in a status as it was written."""
    conditions = status.get("conditions") if isinstance(status, dict) else None
    statuses = {value.value for value in ConditionStatus}
    return [
        Condition(
            condition["type"],
            ConditionStatus(condition["status"]),
            condition.get("reason", ""),
            condition.get("message", ""),
            condition["lastTransitionTime"],
        )
        for condition in (conditions if isinstance(conditions, list) else [])
        if isinstance(condition, dict)
        and "type" in condition
        and condition.get("status") in statuses
        and "lastTransitionTime" in condition
    ]
