"""JSON values -> dataclasses, strictly by the types of their fields. Pure.

Whoever may write to an internal topic can write anything into it, and what is read from there reaches Kafka clients,
URLs and comparisons. So a value has the type of its field and passes the field's check, or the record is not valid: any
JSON value gives a value or a DecodeError. Unknown fields are ignored, and one that is missing has its default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: (JSON value, path of its field) -> value. Raises DecodeError.
Read = Callable[[Any, str], Any]
#: A value of the right type -> why it is not valid; None = it is.
Check = Callable[[Any], str | None]

INTEGER_MAX = 2**63 - 1  #: JSON knows larger ones, which other readers of a record do not
TIME_MAX_S = 253_402_300_799  #: Unix seconds; later times have no text


class DecodeError(ValueError):
    """A record of a topic is not valid. The message names the field."""


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
        self._readers: dict[type, Mapping[str, tuple[Read, bool]]] = {}

    def read(self, kind: type[T], row: Any, path: str = "") -> T:
        """The value of a JSON object. Raises DecodeError."""
        values = {}
        object_at(row, path or kind.__name__)
        for name, (read, required) in self._fields(kind).items():
            at = f"{path}.{name}" if path else name
            if name in row:
                values[name] = read(row[name], at)
            elif required:
                raise DecodeError(f"{at} is missing")
        return kind(**values)

    def _fields(self, kind: type) -> Mapping[str, tuple[Read, bool]]:
        if kind not in self._readers:
            hints = get_type_hints(kind)
            rules = self._rules.get(kind, Fields())
            self._readers[kind] = {
                one.name: (
                    _checked(rules.special.get(one.name) or self._by_type(hints[one.name]), rules.checks.get(one.name)),
                    one.name in rules.required or one.default is one.default_factory is MISSING,
                )
                for one in fields(kind)
            }
        return self._readers[kind]

    def _by_type(self, hint: Any) -> Read:
        parts = get_args(hint)
        if get_origin(hint) is tuple:
            return partial(_items, self._by_type(parts[0]))
        if get_origin(hint) is dict:
            return partial(_mapping, self._by_type(parts[1]))
        if NoneType in parts:
            return partial(_optional, self._by_type(parts[0]))
        if isinstance(hint, type) and is_dataclass(hint):
            return partial(self.read, hint)
        return _choice(hint) if issubclass(hint, StrEnum) else _SCALARS[hint]


def object_at(value: Any, path: str) -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise DecodeError(f"{path} is {described(value)}, not an object")
    return value


def text_at(value: Any, path: str) -> str:
    """The value, which must be a text that can be stored."""
    if not isinstance(value, str):
        raise DecodeError(f"{path} is {described(value)}, not a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DecodeError(f"{path} has half of a surrogate pair") from None
    return value


def integer_at(value: Any, path: str) -> int:
    """The value, which must be a whole number of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
        raise DecodeError(f"{path} is {described(value)}, not a whole number of 64 bits")
    return value


def number_at(value: Any, path: str) -> float:
    """The value, which must be a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= INTEGER_MAX:
        raise DecodeError(f"{path} is {described(value)}, not a number")
    return float(value)


def items_at(value: Any, path: str) -> list[Any]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise DecodeError(f"{path} is {described(value)}, not a list")
    return value


def described(value: Any) -> str:
    """What a JSON value is, for messages. Texts are not shown: they may hold secrets."""
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
    def read(value: Any, path: str) -> StrEnum:
        try:
            return kind(text_at(value, path))
        except ValueError as problem:
            if isinstance(problem, DecodeError):
                raise
            raise DecodeError(f"{path} is none of {', '.join(kind)}") from None

    return read


def _checked(read: Read, check: Check | None) -> Read:
    if check is None:
        return read

    def checked(value: Any, path: str) -> Any:
        found = read(value, path)
        wrong = check(found) if found is not None else None
        if wrong is not None:
            raise DecodeError(f"{path} {wrong}")
        return found

    return checked


def _truth(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise DecodeError(f"{path} is {described(value)}, neither true nor false")
    return value


def _items(read: Read, value: Any, path: str) -> tuple[Any, ...]:
    return tuple(read(item, f"{path}[{index}]") for index, item in enumerate(items_at(value, path)))


def _mapping(read: Read, value: Any, path: str) -> dict[str, Any]:
    return {text_at(key, path): read(item, f"{path}.{key}") for key, item in object_at(value, path).items()}


def _optional(read: Read, value: Any, path: str) -> Any:
    return None if value is None else read(value, path)


_SCALARS: Mapping[type, Read] = {str: text_at, int: integer_at, float: number_at, bool: _truth}
