"""Compiles a parsed CESQL expression to nested closures, so that evaluating it looks nothing up and parses nothing.

A closure takes the attributes and returns a value, or raises `Fault`. An operator with a failing operand fails too, so
the first fault ends the evaluation, and the result is the zero value of the outermost operator ("fail fast mode" of
the specification).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne

from knative.cesql import parser
from knative.cesql.functions import Function, find
from knative.cesql.parser import Attribute, Binary, Call, Exists, In, Like, Literal, Logic, Minus, Node, Not
from knative.cesql.values import (
    ZERO,
    ErrorKind,
    EvaluationError,
    Fault,
    Type,
    Value,
    bounded,
    to_boolean,
    to_integer,
    to_string,
    type_of,
)

Attributes = Mapping[str, Value]
Closure = Callable[[Attributes], Value]
Cast = Callable[[Value], Value]

_REQUIRED = frozenset(("id", "source", "type", "specversion"))
_CASTS: dict[Type | None, Cast] = {
    Type.STRING: to_string,
    Type.INTEGER: to_integer,
    Type.BOOLEAN: to_boolean,
    None: lambda value: value,
}
_ORDER = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Step:
    """The value of one part of an expression by itself. `depth`: how far the part is inside (0 = the whole).

    `decides`: the value of this smallest part, or its error, gives the whole its value.
    """

    depth: int
    text: str
    value: Value
    errors: tuple[EvaluationError, ...]
    decides: bool = False


class Expression:
    """A compiled expression. May be used from any thread."""

    __slots__ = ("_closure", "_node", "text")

    def __init__(self, text: str, node: Node) -> None:
        self.text = text
        self._node = node
        self._closure = _closure(node)

    def evaluate(self, attributes: Attributes) -> tuple[Value, list[EvaluationError]]:
        """The value, and what went wrong. Never raises. Attributes have lower-case names."""
        return _evaluate(self._node, self._closure, attributes)

    def matches(self, attributes: Attributes) -> bool:
        """Whether an event with these attributes passes: the value is true, and there is no error."""
        try:
            return self._closure(attributes) is True
        except Fault:
            return False

    def explain(self, attributes: Attributes) -> Iterator[Step]:
        """Each part of the expression with its value, the whole first. Parts that are skipped when the whole is
        evaluated (`false AND part`) have a value here too."""
        deciding = _deciding(self._node, attributes)
        for depth, node in _walk(self._node, 0):
            value, errors = _value(node, attributes)
            yield Step(depth, self.text[node.start : node.end], value, tuple(errors), node is deciding)


def compile(text: str) -> Expression:
    """Compile an expression. Raises CesqlSyntaxError with the position."""
    return Expression(text, parser.parse(text))


def _evaluate(node: Node, closure: Closure, attributes: Attributes) -> tuple[Value, list[EvaluationError]]:
    try:
        return closure(attributes), []
    except Fault as fault:
        return (fault.value if fault.node is node else ZERO[_type(node)]), [fault.error]


def _value(node: Node, attributes: Attributes) -> tuple[Value, list[EvaluationError]]:
    return _evaluate(node, _closure(node), attributes)


def _deciding(node: Node, attributes: Attributes) -> Node:
    """The smallest part that alone gives a node its value: what has the error, or where AND or OR ends."""
    _, errors = _value(node, attributes)
    inner: Node | None = None
    if errors:
        inner = next((child for child in _children(node) if _value(child, attributes)[1] == errors), None)
    elif isinstance(node, Not):
        inner = node.operand
    elif isinstance(node, Logic):
        inner = _last_operand(node, attributes)
    return node if inner is None else _deciding(inner, attributes)


def _last_operand(node: Logic, attributes: Attributes) -> Node | None:
    """The operand that decides alone: false in `a AND b`, true in `a OR b`. None if several do it together."""
    for operand, operator in zip(node.operands, node.operators, strict=False):
        if operator == "XOR" or operator != node.operators[0]:
            return None
        if _cast_to(Type.BOOLEAN, operand)(attributes) is (operator == "OR"):
            return operand
    last = node.operands[-1]
    return last if _cast_to(Type.BOOLEAN, last)(attributes) is (node.operators[0] == "OR") else None


def _type(node: Node) -> Type:
    """What a node returns. An attribute may have any type; the specification says that it counts as a Boolean."""
    match node:
        case Literal():
            return type_of(node.value)
        case Minus():
            return Type.INTEGER
        case Binary():
            return Type.INTEGER if node.operator in _ARITHMETIC else Type.BOOLEAN
        case Call():
            function = find(node.name, len(node.arguments))
            return Type.BOOLEAN if function is None else function.result
        case _:
            return Type.BOOLEAN


def _walk(node: Node, depth: int) -> Iterator[tuple[int, Node]]:
    yield depth, node
    for child in _children(node):
        yield from _walk(child, depth + 1)


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Not() | Minus() | Like():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Logic():
            return node.operands
        case In():
            return (node.operand, *node.items)
        case Call():
            return node.arguments
        case _:
            return ()


def _closure(node: Node) -> Closure:
    match node:
        case Literal():
            value = node.value
            return lambda attributes: value
        case Attribute():
            return _attribute(node.name)
        case Exists():
            name = node.name
            return (lambda attributes: True) if name in _REQUIRED else (lambda attributes: name in attributes)
        case Not():
            boolean = _cast_to(Type.BOOLEAN, node.operand)
            return lambda attributes: not boolean(attributes)
        case Minus():
            integer = _integer(node.operand)
            return lambda attributes: bounded(-integer(attributes), "-")
        case Binary() if node.operator in _ARITHMETIC:
            return _arithmetic(node.operator, _integer(node.left), _integer(node.right))
        case Binary() if node.operator in _ORDER:
            compare, left, right = _ORDER[node.operator], _integer(node.left), _integer(node.right)
            return lambda attributes: compare(left(attributes), right(attributes))
        case Binary():
            return _equality(node)
        case Logic():
            return _logic(node)
        case Like():
            return _like(node)
        case In():
            return _in(node)
        case Call():
            return _call(node)
    raise TypeError(f"{type(node).__name__} is not a node of an expression")


def _cast_to(type_: Type | None, node: Node) -> Closure:
    """A closure whose value has a type."""
    closure, cast = _closure(node), _CASTS[type_]
    if type_ is None or (not isinstance(node, Attribute) and _type(node) is type_):
        return closure
    return lambda attributes: cast(closure(attributes))


def _integer(node: Node) -> Callable[[Attributes], int]:
    return _cast_to(Type.INTEGER, node)  # type: ignore[return-value]


def _attribute(name: str) -> Closure:
    def attribute(attributes: Attributes) -> Value:
        try:
            return attributes[name]
        except KeyError:
            raise Fault(ErrorKind.MISSING_ATTRIBUTE, f"the event has no attribute {name!r}") from None

    return attribute


def _divide(left: int, right: int) -> int:
    """Truncated toward zero; Python's `//` rounds down."""
    if right == 0:
        raise Fault(ErrorKind.MATH, "division by zero", 0)
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int:
    """With the sign of the left operand; Python's `%` has that of the right one."""
    if right == 0:
        raise Fault(ErrorKind.MATH, "remainder of a division by zero", 0)
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
}


def _arithmetic(operator: str, left: Callable[[Attributes], int], right: Callable[[Attributes], int]) -> Closure:
    compute = _ARITHMETIC[operator]

    return lambda attributes: bounded(compute(left(attributes), right(attributes)), operator)


def _equality(node: Binary) -> Closure:
    """`=` and `!=`: the left operand is cast to the type of the right one."""
    compare: Callable[[Value, Value], bool] = eq if node.operator == "=" else ne
    left, right = _closure(node.left), _closure(node.right)
    if isinstance(node.right, Literal):
        value = node.right.value
        cast = _CASTS[type_of(value)]
        # Most operands are attributes, and those of real events are strings: these need no cast.
        class_ = value.__class__

        def with_literal(attributes: Attributes) -> bool:
            found = left(attributes)
            return compare(found if found.__class__ is class_ else cast(found), value)

        return with_literal

    def equality(attributes: Attributes) -> bool:
        found, other = left(attributes), right(attributes)
        return compare(_CASTS[type_of(other)](found), other)

    return equality


def _logic(node: Logic) -> Closure:
    """`a AND rest` is false, or the value of `rest`; `a OR rest` is true, or that value; `a XOR rest` negates it where
    `a` is true. So the operators, which associate to the right, need no recursion."""
    *first, last = (_cast_to(Type.BOOLEAN, operand) for operand in node.operands)
    steps = tuple(zip(first, node.operators, strict=True))
    if len(steps) == 1 and steps[0][1] != "XOR":
        left = steps[0][0]
        if steps[0][1] == "AND":
            return lambda attributes: last(attributes) if left(attributes) else False
        return lambda attributes: True if left(attributes) else last(attributes)

    def logic(attributes: Attributes) -> bool:
        negated = False
        for operand, operator in steps:
            value = operand(attributes)
            if operator == "XOR":
                negated ^= bool(value)
            elif bool(value) is (operator == "OR"):
                return negated ^ bool(value)
        return negated ^ bool(last(attributes))

    return logic


def _like(node: Like) -> Closure:
    text, fits, negated = _cast_to(Type.STRING, node.operand), _pattern(node.pattern), node.negated
    return lambda attributes: (fits(text(attributes)) is None) is negated  # type: ignore[arg-type]


def _pattern(pattern: str) -> Callable[[str], re.Match[str] | None]:
    r"""A regular expression for a pattern: `%` is any text, `_` any character, `\%` and `\_` are these characters.

    Each part between two `%` is searched from the left and never again (an atomic group): that is enough to find a
    match, and the time does not grow with the number of `%`.
    """
    parts, part = [], ""
    for token in re.findall(r"\\[%_]|.", pattern, re.DOTALL):
        if token == "%":
            parts.append(part)
            part = ""
        else:
            part += "." if token == "_" else re.escape(token[-1])
    if not parts:
        return re.compile(part, re.DOTALL).fullmatch
    first, *middle = parts
    searched = "".join(f"(?>.*?{one})" for one in middle if one)
    return re.compile(rf"{first}{searched}.*{part}", re.DOTALL).fullmatch


def _in(node: In) -> Closure:
    """Casts each item in turn to the type of the operand, until one is equal."""
    operand, negated = _closure(node.operand), node.negated
    if all(isinstance(item, Literal) and isinstance(item.value, str) for item in node.items):
        texts = frozenset(item.value for item in node.items if isinstance(item, Literal))
        items = tuple(_closure(item) for item in node.items)

        def in_texts(attributes: Attributes) -> bool:
            found = operand(attributes)
            if found.__class__ is str:
                return (found in texts) is not negated
            return _among(found, items, attributes) is not negated

        return in_texts
    items = tuple(_closure(item) for item in node.items)
    return lambda attributes: _among(operand(attributes), items, attributes) is not negated


def _among(found: Value, items: tuple[Closure, ...], attributes: Attributes) -> bool:
    cast = _CASTS[type_of(found)]
    return any(cast(item(attributes)) == found for item in items)


def _call(node: Call) -> Closure:
    function = find(node.name, len(node.arguments))
    if function is None:
        return _missing_function(node)
    types = [*function.parameters, *[function.rest] * (len(node.arguments) - len(function.parameters))]
    arguments = tuple(_cast_to(type_, argument) for type_, argument in zip(types, node.arguments, strict=True))
    return _with_arguments(node, function, arguments)


def _with_arguments(node: Call, function: Function, arguments: tuple[Closure, ...]) -> Closure:
    body = function.body

    def call(attributes: Attributes) -> Value:
        values = [argument(attributes) for argument in arguments]
        try:
            return body(*values)
        except Fault as fault:
            fault.node = node  # if this is the whole expression, it returns the value of the fault
            raise

    return call


def _missing_function(node: Call) -> Closure:
    count = len(node.arguments)
    message = f"there is no function {node.name} with {count} argument{'' if count == 1 else 's'}"

    def missing(attributes: Attributes) -> Value:
        raise Fault(ErrorKind.MISSING_FUNCTION, message)

    return missing
