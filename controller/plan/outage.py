"""Makes the status of an object while Kafka is away, and what the object has there is not known. Pure.

The only source is the object's own status. What it says about other objects stays, and so do address, topic and group;
what it says about Kafka becomes unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller.model import Key
from controller.plan.actions import WriteStatus
from controller.plan.channels import kafka_unavailable
from controller.plan.seek_status import PARTS as _STEPS
from knative.resources.conditions import Condition, ConditionStatus, conditions_of, ready
from tables.resource_status import PARTS, SECRET_READY

_PARTS = {**PARTS, "ResetOffset": _STEPS}
#: Those that do not depend on Kafka, or are what was found before.
_STAY = frozenset(
    {
        SECRET_READY,
        "Addressable",
        "DeadLetterSinkResolved",
        "ReferencesResolved",
        "SubscriberResolved",
        "DependencyReady",
    }
)


def outage_status(key: Key, uid: str, generation: int, live: Mapping[str, Any], why: str) -> WriteStatus | None:
    """Returns the status of a channel, Broker, Subscription or Trigger, or of a ResetOffset that is not over. `live`:
    its present one, and if that says all of it, there is none to write; `why`: Kafka is away."""
    current = live.get("observedGeneration") == generation
    before = {condition.type: condition for condition in conditions_of(live)}
    # A Broker has it only with a Secret of its own.
    types = [part for part in _PARTS[key[0]] if part in before or part != SECRET_READY]
    parts = tuple(_part(type_, before.get(type_), why, current=current) for type_ in types)
    body = {name: value for name, value in live.items() if name not in ("observedGeneration", "conditions")}
    if rows := body.get("subscribers"):
        away = kafka_unavailable("Ready", why)
        body["subscribers"] = [{**row, "ready": away.status.value, "message": away.message} for row in rows]
    conditions = (ready(parts), *parts)
    same = all(
        condition.type in before and _said(condition) == _said(before[condition.type]) for condition in conditions
    )
    if current and same and body.items() <= live.items():
        return None
    return WriteStatus(*key, uid, generation, conditions, body)


def _said(condition: Condition) -> Condition:
    return replace(condition, last_transition="")


def _part(type_: str, before: Condition | None, why: str, *, current: bool) -> Condition:
    done = type_ in _STEPS and before is not None and before.status is not ConditionStatus.UNKNOWN
    if before is not None and current and (done or type_ in _STAY):
        return before
    return kafka_unavailable(type_, why)
