"""The values of CESQL (strings, 32-bit integers, booleans), the casts between them, and the errors of an evaluation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

Value = str | int | bool

INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch


class Type(StrEnum):
    """The types of the language. Timestamps and URIs are strings."""

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"


class ErrorKind(StrEnum):
    """The kinds of errors, with the names of the specification."""

    PARSE = "parse"
    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """One error of an evaluation. `message` is one line."""

    kind: ErrorKind
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Fault(Exception):
    """An operator or function failed. Every operator around it fails too, with the zero value of its own type.

    `value` is what the operator or function that failed returns when it is the whole expression.
    """

    def __init__(self, kind: ErrorKind, message: str, value: Value = False) -> None:
        super().__init__(message)
        self.error = EvaluationError(kind, message)
        self.value = value
        self.node: object = None  #: the call that failed itself, not by an argument


#: What an operator of a type returns together with an error.
ZERO: dict[Type, Value] = {Type.STRING: "", Type.INTEGER: 0, Type.BOOLEAN: False}


def type_of(value: Value) -> Type:
    """Returns the type of a value. Python's booleans are integers, CESQL's are not."""
    if value.__class__ is bool:
        return Type.BOOLEAN
    return Type.STRING if isinstance(value, str) else Type.INTEGER


def to_string(value: Value) -> str:
    """Cast to String; cannot fail."""
    if value.__class__ is str:
        return value
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(value)


def to_integer(value: Value) -> int:
    """Cast to Integer. Raises Fault if a string is not a 32-bit number in base 10."""
    if value.__class__ is int:
        return value
    if not isinstance(value, str):
        return int(value)
    # With leading zeros. Python converts thousands of digits, in a time that grows with their square.
    if len(value) <= 64 and _INTEGER(value):
        number = int(value)
        if INTEGER_MIN <= number <= INTEGER_MAX:
            return number
    raise Fault(ErrorKind.CAST, f"{_shown(value)} is not a valid 32-bit Integer", 0)


def to_boolean(value: Value) -> bool:
    """Cast to Boolean. Raises Fault if a string is neither true nor false."""
    if value.__class__ is bool:
        return value
    if not isinstance(value, str):
        return value != 0
    lowered = value.lower() if len(value) <= 5 else ""
    if lowered == "true":
        return True
    if lowered == "false":
        return False
    raise Fault(ErrorKind.CAST, f"{_shown(value)} is not a valid Boolean: write true or false", False)


def bounded(number: int, what: str) -> int:
    """Returns a result of arithmetic. Raises Fault if it does not fit into 32 bits."""
    if INTEGER_MIN <= number <= INTEGER_MAX:
        return number
    raise Fault(ErrorKind.MATH, f"the result of {what} does not fit into 32 bits", 0)


def _shown(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "...")
