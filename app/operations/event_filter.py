"""Which stored events to show: attributes as text, or CloudEvents SQL, as `penstock tail --filter`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.operations.stored_records import split_headers
from knative import cesql
from knative.errors import UsageError
from knative.filters.attributes import attributes_of
from tables.kafka.topic_reader import StoredRecord

_PAIR = re.compile(
    r"""([^\s=<>!'"()]+)=((?!\s)(?:(?!\b(?:AND|OR|XOR|NOT|LIKE|IN|EXISTS)\b)[^'"()])*)""", re.IGNORECASE | re.DOTALL
).fullmatch


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What a filter asks for. Without anything, every event passes."""

    attributes: Mapping[str, str] = field(default_factory=dict)  #: as they are stored
    expressions: tuple[cesql.Expression, ...] = ()

    def passes(self, record: StoredRecord) -> bool:
        """Returns whether the event has all these attributes, and each expression is true, as for a trigger."""
        if self.attributes and not self.attributes.items() <= split_headers(record)[0].items():
            return False
        if not self.expressions:
            return True
        attributes = attributes_of(record.headers, record.value)
        return attributes is not None and all(expression.matches(attributes) for expression in self.expressions)

    def __bool__(self) -> bool:
        return bool(self.attributes or self.expressions)


def read_filters(wishes: Sequence[str], option: str = "--filter") -> EventFilter:
    """Reads ATTRIBUTE=VALUE texts and CESQL. A text without quotes, parentheses and operators after its first `=` is
    the former. Raises UsageError that names `option` for anything else, and for two values of an attribute."""
    attributes: dict[str, str] = {}
    expressions = []
    for wish in wishes:
        pair = _PAIR(wish)
        if wish.isalnum() or wish.startswith("="):
            what = "Write ATTRIBUTE=VALUE, such as type=order.placed, or a CESQL expression."
            raise UsageError(f"{option} {wish!r} is incomplete.", what)
        if pair is None:
            expressions.append(_expression(wish, option))
        elif attributes.setdefault(pair[1], pair[2]) != pair[2]:
            raise UsageError(
                f"{option} asks for two values of {pair[1]}, and an event has only one value.",
                "Remove one of these filters.",
            )
    return EventFilter(attributes, tuple(expressions))


def _expression(text: str, option: str) -> cesql.Expression:
    try:
        return cesql.compile(text)
    except cesql.CesqlSyntaxError as problem:
        raise UsageError(
            f"{option} is neither ATTRIBUTE=VALUE nor a valid CESQL expression: {problem.reason}.",
            f"Correct it where the caret is:\n{caret(text, problem.position)}",
        ) from None


def caret(text: str, position: int) -> str:
    """Returns the line of the text that has this position, with a caret under it."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].partition("\n")[0].replace("\t", " ")
    return f"  {line}\n  {' ' * (position - start)}^"
