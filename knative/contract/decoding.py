"""JSON values -> dataclasses, strictly by the types of their fields. Pure.

Whoever may write to an internal topic can write anything into it, and what is read from there reaches Kafka clients,
URLs and comparisons. So a value has the type of its field and passes the field's check, or the record is not valid: any
JSON value gives a value or a DecodeError. Unknown fields are ignored, and one that is missing has its default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from knative.errors import SHOWN_CHARS

T = TypeVar("T")
#: JSON value -> value. Raises DecodeError.
Read = Callable[[Any], Any]
#: A value of the right type -> why it is not valid; None = it is.
Check = Callable[[Any], str | None]

INTEGER_MAX = 2**63 - 1  #: JSON knows larger ones, which other readers of a record do not
TIME_MAX_S = 253_402_300_799  #: Unix seconds; later times have no text


class DecodeError(ValueError):
    """A record of a topic is not valid. The message names the field: whoever reads what is around it says `within`."""

    def within(self, name: str) -> DecodeError:
        """Returns the same error for a part of `name`."""
        text = str(self)
        return DecodeError(f"{name}{text}" if text[:1] in (" ", "[") else f"{name}.{text}")


@dataclass(frozen=True, slots=True)
class Fields:
    """How the fields of one dataclass are read, beyond their types."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    special: Mapping[str, Read] = field(
        default_factory=dict
    )  #: fields whose form is another one than that of their type
    required: frozenset[str] = frozenset()  #: fields that every record has, although they have defaults


class Decoder:
    """Reads values of some dataclasses."""

    def __init__(self, rules: Mapping[type, Fields]) -> None:
        """`rules`: of the dataclasses that have some."""
        self._rules = rules
        self._readers: dict[type, list[tuple[str, Read, bool]]] = {}

    def read(self, kind: type[T], row: Any) -> T:
        """Returns the value of a JSON object. Raises DecodeError."""
        members = object_at(row)
        values = {}
        for name, read, required in self._fields(kind):
            if name in members:
                try:
                    values[name] = read(members[name])
                except DecodeError as problem:
                    raise problem.within(name) from None
            elif required:
                raise DecodeError(f"{name} is missing")
        return kind(**values)

    def read_at(self, name: str, kind: type[T], row: Any) -> T:
        """Returns the value of the JSON object in field `name`. Raises DecodeError."""
        try:
            return self.read(kind, row)
        except DecodeError as problem:
            raise problem.within(name) from None

    def _fields(self, kind: type) -> Sequence[tuple[str, Read, bool]]:
        if kind not in self._readers:
            hints = get_type_hints(kind)
            rules = self._rules.get(kind, Fields())
            self._readers[kind] = [
                (
                    member.name,
                    _checked(
                        rules.special.get(member.name) or self._by_type(hints[member.name]),
                        rules.checks.get(member.name),
                    ),
                    member.name in rules.required or member.default is member.default_factory is MISSING,
                )
                for member in fields(kind)
            ]
        return self._readers[kind]

    def _by_type(self, hint: Any) -> Read:
        parts = get_args(hint)
        if get_origin(hint) is tuple:
            return partial(each, self._by_type(parts[0]))
        if get_origin(hint) in (dict, Mapping):
            return partial(by_name, self._by_type(parts[1]))
        if NoneType in parts:
            return partial(_optional, self._by_type(parts[0]))
        if isinstance(hint, type) and is_dataclass(hint):
            return partial(self.read, hint)
        return _choice(hint) if issubclass(hint, StrEnum) else _SCALARS[hint]


def object_at(value: Any, name: str = "") -> dict[str, Any]:
    """Returns the value, which must be a JSON object. `name`: of its field, for the message."""
    if not isinstance(value, dict):
        raise DecodeError(f"{name} is {described(value)}, not an object")
    return value


def text_at(value: Any, name: str = "") -> str:
    """Returns the value, which must be a text that can be stored."""
    if not isinstance(value, str):
        raise DecodeError(f"{name} is {described(value)}, not a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DecodeError(f"{name} has half of a surrogate pair") from None
    return value


def integer_at(value: Any, name: str = "") -> int:
    """Returns the value, which must be a whole number of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
        raise DecodeError(f"{name} is {described(value)}, not a whole number of 64 bits")
    return value


def number_at(value: Any, name: str = "") -> float:
    """Returns the value, which must be a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= INTEGER_MAX:
        raise DecodeError(f"{name} is {described(value)}, not a number")
    return float(value)


def items_at(value: Any, name: str = "") -> list[Any]:
    """Returns the value, which must be a list."""
    if not isinstance(value, list):
        raise DecodeError(f"{name} is {described(value)}, not a list")
    return value


def each(read: Callable[[Any], T], value: Any) -> tuple[T, ...]:
    """Returns the items of the value, which must be a list."""
    values = []
    for index, item in enumerate(items_at(value)):
        try:
            values.append(read(item))
        except DecodeError as problem:
            raise problem.within(f"[{index}]") from None
    return tuple(values)


def by_name(read: Callable[[Any], T], value: Any) -> dict[str, T]:
    """Returns the members of the value, which must be an object."""
    values = {}
    for name, member in object_at(value).items():
        try:
            values[text_at(name)] = read(member)
        except DecodeError as problem:
            raise problem.within(name[:SHOWN_CHARS]) from None
    return values


def described(value: Any) -> str:
    """Returns what a JSON value is, for messages. Texts are not shown: they may hold secrets."""
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return "a number" if math.isfinite(value) else "not a finite number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def between(least: float, most: float) -> Check:
    """Checks that a number is in a range, both ends included."""
    return lambda number: None if least <= number <= most else f"is not between {least:,} and {most:,}"


@cache
def _choice(kind: type[StrEnum]) -> Read:
    by_text = {str(member): member for member in kind}

    def read(value: Any) -> StrEnum:
        member = by_text.get(text_at(value))
        if member is None:
            raise DecodeError(f" is not one of {', '.join(by_text)}")
        return member

    return read


def _checked(read: Read, check: Check | None) -> Read:
    if check is None:
        return read

    def checked(value: Any) -> Any:
        checkable = read(value)
        wrong = check(checkable) if checkable is not None else None
        if wrong is not None:
            raise DecodeError(f" {wrong}")
        return checkable

    return checked


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DecodeError(f" is {described(value)}, neither true nor false")
    return value


def _optional(read: Read, value: Any) -> Any:
    return None if value is None else read(value)


_SCALARS: Mapping[type, Read] = {str: text_at, int: integer_at, float: number_at, bool: _truth}
