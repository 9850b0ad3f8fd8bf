"""What the filter of a Subscription or Trigger says about one event, and what the event would wait for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knative.cloudevents.event_file import read_event
from knative.delivery.policy import DeliveryOrder
from knative.filters import ALL_EVENTS, Filter, Part, compile_filter, explain
from knative.filters.attributes import attributes_of
from knative.ports import Headers

MARKS = {True: "✓", False: "✗", None: "="}
ASCII_MARKS = {True: "+", False: "-", None: "="}
_INDENT = "  "
_DECIDES = "  <- decides"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a Trigger's filter says about one event."""

    trigger: str  #: namespace/name
    passes: bool
    parts: tuple[Part, ...]  #: the whole first; empty = the Trigger has no filter
    order: DeliveryOrder
    key: str | None  #: of the event's record
    attributes: Mapping[str, str]


def as_json(explanation: Explanation) -> dict[str, object]:
    """Returns the explanation as one JSON value."""
    return {
        "trigger": explanation.trigger,
        "matches": explanation.passes,
        "reason": reason(explanation),
        "parts": [
            {
                "depth": part.depth,
                "part": part.text,
                "matches": part.passes,
                "found": part.value,
                "decides": part.decides,
            }
            for part in explanation.parts
        ],
        "order": str(explanation.order),
        "key": explanation.key,
        "key_attribute": key_attribute(explanation) or None,
        "attributes": dict(explanation.attributes),
    }


def explain_event(label: str, filter_: Filter, order: DeliveryOrder, content: bytes, name: str) -> Explanation:
    """Explains an event as a person has written it: `knative/cloudevents/event_file`. Raises UsageError if it is not
    one."""
    headers, key, value = read_event(content, name)
    return explain_record(label, filter_, order, headers, key, value)


def explain_record(
    label: str, filter_: Filter, order: DeliveryOrder, headers: Headers, key: bytes | None, value: bytes | None
) -> Explanation:
    """Explains a stored event."""
    attributes = attributes_of(headers, value) or {}
    compiled = compile_filter(filter_)
    return Explanation(
        trigger=label,
        passes=compiled is None or compiled.matches(attributes),
        parts=() if filter_ == ALL_EVENTS else tuple(explain(filter_, attributes)),
        order=order,
        key=None if key is None else key.decode("utf-8", "replace"),
        attributes=attributes,
    )


def reason(explanation: Explanation) -> str:
    """Returns the verdict in words, with the part that decided."""
    verdict = "matches" if explanation.passes else "does not match"
    if not explanation.parts:
        return f"{verdict}: the trigger has no filter, so it gets every event"
    decider = next((part for part in explanation.parts if part.decides), None)
    if decider is None:
        return f"{verdict}: " + (
            "every attribute has the value of the filter" if explanation.passes else "several filters together"
        )
    if decider.operand or decider.value or decider.text not in ("all", "any"):
        return f"{verdict}: {decider.text}" + (f" ({decider.value})" if decider.value else "")
    return f"{verdict}: " + ("every filter of `all` matches" if decider.text == "all" else "no filter of `any` matches")


def tree(parts: Sequence[Part], marks: Mapping[bool | None, str] = MARKS) -> list[str]:
    """Returns one line for each part: whether it passes (`=` for a value), what it is, and what the event has there.
    Numbers and strings of an expression have no line of their own."""
    return [
        f"{_INDENT * part.depth}{marks[part.passes]} {part.text}"
        + (f"   {part.value}" if part.value else "")
        + (_DECIDES if part.decides else "")
        for part in parts
        if not (part.operand and _is_literal(part))
    ]


def _is_literal(part: Part) -> bool:
    """Returns whether its value is what is written."""
    return part.text == part.value or (part.text[:1] == '"' and part.text[1:-1] == part.value[1:-1])


def order(explanation: Explanation) -> str:
    """Returns what the event waits for."""
    if explanation.order is DeliveryOrder.ORDERED:
        return "ordered; the event waits for the events before it in its partition"
    if explanation.order is DeliveryOrder.UNORDERED:
        return "unordered; the event does not wait for other events"
    if explanation.key is None:
        return "key-ordered; the event has no key (partitionkey or subject), so it does not wait for other events"
    return (
        f"key-ordered; its key is {explanation.key!r} ({key_attribute(explanation)}), and the event waits for earlier "
        "events with this key"
    )


def key_attribute(explanation: Explanation) -> str:
    """Returns the attribute that is the event's key; "" = it has none."""
    return next((name for name in ("partitionkey", "subject") if name in explanation.attributes), "")
