"""The built-in functions of CESQL: types of the parameters, type of the result, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knative.cesql.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    ErrorKind,
    Fault,
    Type,
    Value,
    to_boolean,
    to_integer,
    to_string,
)

#: White_Space of Unicode. `str.strip` would also take the control characters U+001C to U+001F.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@dataclass(frozen=True, slots=True)
class Function:
    """One definition. `rest`: the type of any further arguments (None = there are none); `body` then takes a delimiter
    and all other texts."""

    parameters: tuple[Type | None, ...]  #: None = any type
    result: Type
    body: Callable[..., Value]
    rest: Type | None = None
    weight: int = 0  #: how often it handles each character of its first text, or of its result with `rest`
    own_value: bool = False  #: a fault has another value than the zero value of `result`

    def takes(self, count: int) -> bool:
        """Returns whether it may be called with this number of arguments."""
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))


def find(name: str, count: int) -> Function | None:
    """Returns the function with this name (in upper case) for this number of arguments."""
    return next((function for function in FUNCTIONS.get(name, ()) if function.takes(count)), None)


def _left(text: str, length: int) -> str:
    if length < 0:
        raise Fault(ErrorKind.FUNCTION_EVALUATION, f"LEFT: the length {length} is negative", text)
    return text[:length]


def _right(text: str, length: int) -> str:
    if length < 0:
        raise Fault(ErrorKind.FUNCTION_EVALUATION, f"RIGHT: the length {length} is negative", text)
    return text[max(0, len(text) - length) :]


def _substring(text: str, position: int, length: int = INTEGER_MAX) -> str:
    if position == 0:
        return ""
    if not -len(text) <= position <= len(text):
        what = f"SUBSTRING: position {position} is outside of a text with {len(text)} characters"
        raise Fault(ErrorKind.FUNCTION_EVALUATION, what, "")
    if length < 0:
        raise Fault(ErrorKind.FUNCTION_EVALUATION, f"SUBSTRING: the length {length} is negative", "")
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _abs(number: int) -> int:
    if number == INTEGER_MIN:
        raise Fault(ErrorKind.MATH, f"ABS: {-INTEGER_MIN} does not fit into 32 bits", INTEGER_MAX)
    return abs(number)


def _is(cast: Callable[[Value], Any]) -> Callable[[Value], bool]:
    def castable(value: Value) -> bool:
        try:
            cast(value)
        except Fault:
            return False
        return True

    return castable


_S, _I, _B = Type.STRING, Type.INTEGER, Type.BOOLEAN
#: Changing a letter beyond ASCII, or finding white space, takes this many times as long as copying a character.
_SLOW = 16

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "LENGTH": (Function((_S,), _I, len),),
    "CONCAT": (Function((), _S, str.join, rest=_S, weight=1),),
    "CONCAT_WS": (Function((_S,), _S, str.join, rest=_S, weight=1),),
    "LOWER": (Function((_S,), _S, str.lower, weight=_SLOW),),
    "UPPER": (Function((_S,), _S, str.upper, weight=_SLOW),),
    "TRIM": (Function((_S,), _S, lambda text: text.strip(_WHITE_SPACE), weight=_SLOW),),
    "LEFT": (Function((_S, _I), _S, _left, weight=1, own_value=True),),
    "RIGHT": (Function((_S, _I), _S, _right, weight=1, own_value=True),),
    "SUBSTRING": (
        Function((_S, _I), _S, _substring, weight=1, own_value=True),
        Function((_S, _I, _I), _S, _substring, weight=1, own_value=True),
    ),
    "ABS": (Function((_I,), _I, _abs, own_value=True),),
    "INT": (Function((None,), _I, to_integer),),
    "BOOL": (Function((None,), _B, to_boolean),),
    "STRING": (Function((None,), _S, to_string),),
    "IS_INT": (Function((None,), _B, _is(to_integer)),),
    "IS_BOOL": (Function((None,), _B, _is(to_boolean)),),
}
