"""What to write about an object to the API server: its status, and Events for what people care about. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.plan.actions import WriteStatus
from knative import timefmt
from knative.resources.conditions import Condition, ConditionStatus, conditions_of, with_transitions

_NOTE_BYTES_MAX = 1000  # the API server takes 1,024
READY = "Ready"  #: reason of the Event when a resource becomes ready without another reason


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An Event of the Kubernetes API, without the object that it is about."""

    warning: bool
    reason: str
    note: str


def status_document(status: WriteStatus, live: object, now: float) -> dict[str, Any]:
    """Returns the `status` to write. `live`: the present one, which has the times of changes. `now`: Unix seconds."""
    conditions = with_transitions(status.conditions, conditions_of(live), timefmt.in_seconds(now))
    return {
        "observedGeneration": status.generation,
        "conditions": [condition.as_dict() for condition in conditions],
        # The API server drops an empty list that is applied, and then the status would differ for ever.
        **{name: value for name, value in status.body.items() if value != []},
    }


def events(before: Sequence[Condition], after: Sequence[Condition]) -> list[EventDraft]:
    """Returns the Events of a change of status: the resource became ready, cannot be served, is not served any more, or
    a part of its spec is rejected although it is ready. A step on the way to ready is none."""
    old = next((condition for condition in before if condition.type == "Ready"), None)
    new = next((condition for condition in after if condition.type == "Ready"), None)
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return []
    if new.status is ConditionStatus.TRUE:
        return [EventDraft(bool(new.reason), new.reason or READY, new.message or "the resource is served as specified")]
    was_ready = old is not None and old.status is ConditionStatus.TRUE
    if new.status is ConditionStatus.FALSE or was_ready:
        return [EventDraft(True, new.reason, new.message)]
    return []


def event_object(
    draft: EventDraft, status: WriteStatus, api_version: str, name: str, now: float, reporter: str
) -> Mapping[str, Any]:
    """Returns the Event to create. `reporter`: this process."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": status.namespace, "name": name},
        "eventTime": timefmt.in_microseconds(now),
        "reportingController": "penstock.dev/controller",
        "reportingInstance": reporter[:128],
        "action": "Reconcile",
        "reason": draft.reason,
        "type": "Warning" if draft.warning else "Normal",
        "note": draft.note.encode()[:_NOTE_BYTES_MAX].decode(errors="ignore"),
        "regarding": {
            "apiVersion": api_version,
            "kind": status.kind,
            "namespace": status.namespace,
            "name": status.name,
            "uid": status.uid,
        },
    }
