"""Compiles the nodes of an expression to nested closures, so that evaluating it looks nothing up and parses nothing.

A closure takes the attributes and returns a value, or raises `Fault`. An operator with a failing operand fails too, so
the first fault ends the evaluation, and the result is the zero value of the outermost operator ("fail fast mode" of
the specification). A text that is longer than the closures were made for raises `LimitExceeded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne

from knative.cesql.functions import Function, find
from knative.cesql.like import compile_pattern, pattern_weight
from knative.cesql.limits import TEXT_MAX, Metered, too_long
from knative.cesql.parser import Attribute, Binary, Call, Exists, In, Like, Literal, Logic, Minus, Node, Not
from knative.cesql.values import (
    ErrorKind,
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


def measure(node: Node) -> tuple[int, int]:
    """Returns how often all operations of the node together handle each character of the longest text; and the number
    of its operators, functions and operands."""
    weight = size = 0
    waiting = [node]
    while waiting:
        node = waiting.pop()
        size += 1
        if not isinstance(node, Literal | Attribute):
            weight += _weight(node)
            waiting += children(node)
    return weight, size


def _weight(node: Node) -> int:
    match node:
        case Like():
            return pattern_weight(node.pattern)
        case Binary() if node.operator in ("=", "!="):
            return 0 if isinstance(node.right, Literal) else 1
        case In():
            return 0 if _texts(node) is not None else len(node.items)
        case Call():
            function = find(node.name, len(node.arguments))
            return 0 if function is None else function.weight
        case _:
            return 0


def children(node: Node) -> tuple[Node, ...]:
    """Returns the nodes directly below."""
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


def result_type(node: Node) -> Type:
    """Returns the type of a node. An attribute may have any; the specification says that it counts as a Boolean."""
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


class Compiler:
    """Makes the closures of an expression."""

    def __init__(self, most: int = TEXT_MAX, *, metered: bool = False) -> None:
        """`most`: characters of a text that operations handle. `metered`: the attributes are `Metered`."""
        self._most = most
        self._is_metered = metered

    def closure(self, node: Node) -> Closure:
        """Returns the closure of a node."""
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
                boolean = self.cast_to(Type.BOOLEAN, node.operand)
                return lambda attributes: not boolean(attributes)
            case Minus():
                integer = self._integer(node.operand)
                return lambda attributes: bounded(-integer(attributes), "-")
            case Binary() if node.operator in _ARITHMETIC:
                return _arithmetic(node.operator, self._integer(node.left), self._integer(node.right))
            case Binary() if node.operator in _ORDER:
                compare, left, right = _ORDER[node.operator], self._integer(node.left), self._integer(node.right)
                return lambda attributes: compare(left(attributes), right(attributes))
            case Binary():
                return self._equality(node)
            case Logic():
                return self._logic(node)
            case Like():
                return self._like(node)
            case In():
                return self._in(node)
            case Call():
                return self._call(node)
        raise TypeError(f"{type(node).__name__} is not a node of an expression")

    def cast_to(self, type_: Type | None, node: Node) -> Closure:
        """Returns a closure whose value has a type."""
        closure, cast = self.closure(node), _CASTS[type_]
        if type_ is None or (not isinstance(node, Attribute) and result_type(node) is type_):
            return closure
        return lambda attributes: cast(closure(attributes))

    def _integer(self, node: Node) -> Callable[[Attributes], int]:
        return self.cast_to(Type.INTEGER, node)  # type: ignore[return-value]

    def _handled(self, closure: Closure, times: int, what: str) -> Closure:
        """Returns a closure of the same value. `what` will handle each of its characters `times` times: paid for if
        metered."""
        if not self._is_metered:
            return closure

        def paid(attributes: Attributes) -> Value:
            value = closure(attributes)
            if isinstance(value, str):
                _pay(attributes, what, value, times)
            return value

        return paid

    def _equality(self, node: Binary) -> Closure:
        """`=` and `!=`: the left operand is cast to the type of the right one."""
        compare: Callable[[Value, Value], bool] = eq if node.operator == "=" else ne
        left = self.closure(node.left)
        if isinstance(node.right, Literal):
            value = node.right.value
            cast = _CASTS[type_of(value)]
            # Most operands are attributes, and those of real events are strings: these need no cast.
            class_ = value.__class__

            def with_literal(attributes: Attributes) -> bool:
                operand = left(attributes)
                return compare(operand if operand.__class__ is class_ else cast(operand), value)

            return with_literal
        right, most = self._handled(self.closure(node.right), 1, node.operator), self._most

        def equality(attributes: Attributes) -> bool:
            operand, other = left(attributes), right(attributes)
            if other.__class__ is not str:
                return compare(_CASTS[type_of(other)](operand), other)
            if len(other) > most:
                raise too_long(node.operator, len(other))
            return compare(operand if operand.__class__ is str else to_string(operand), other)

        return equality

    def _logic(self, node: Logic) -> Closure:
        """`a AND rest` is false, or the value of `rest`; `a OR rest` is true, or that value; `a XOR rest` negates it
        where `a` is true. So the operators, which associate to the right, need no recursion."""
        *first, last = (self.cast_to(Type.BOOLEAN, operand) for operand in node.operands)
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

    def _like(self, node: Like) -> Closure:
        fits, times, negated, most = compile_pattern(node.pattern), _weight(node), node.negated, self._most
        operand = self.cast_to(Type.STRING, node.operand)
        if not times:
            return lambda attributes: (not fits(operand(attributes))) is negated  # type: ignore[arg-type]
        text_of = self._handled(operand, times, "LIKE")

        def like(attributes: Attributes) -> bool:
            text: str = text_of(attributes)  # type: ignore[assignment]
            if len(text) > most:
                raise too_long("LIKE", len(text))
            return (not fits(text)) is negated

        return like

    def _in(self, node: In) -> Closure:
        """Casts each item in turn to the type of the operand, until one is equal."""
        operand, negated, texts = self.closure(node.operand), node.negated, _texts(node)
        items = tuple(self.closure(item) for item in node.items)
        if texts is not None:

            def in_texts(attributes: Attributes) -> bool:
                value = operand(attributes)
                if value.__class__ is str:
                    return (value in texts) is not negated
                return _among(value, items, attributes) is not negated

            return in_texts
        compared, most = self._handled(operand, len(items), "IN"), self._most

        def within(attributes: Attributes) -> bool:
            value = compared(attributes)
            if value.__class__ is str and len(value) > most:
                raise too_long("IN", len(value))
            return _among(value, items, attributes) is not negated

        return within

    def _call(self, node: Call) -> Closure:
        function = find(node.name, len(node.arguments))
        if function is None:
            return _missing_function(node)
        types = [*function.parameters, *[function.rest] * (len(node.arguments) - len(function.parameters))]
        arguments = [self.cast_to(type_, argument) for type_, argument in zip(types, node.arguments, strict=True)]
        if function.rest is not None:
            return self._joined(node, function, tuple(arguments))
        if function.weight:
            arguments[0] = self._handled(arguments[0], function.weight, node.name)
        if len(arguments) == 1 and not function.own_value:
            return self._of_one(node, function, arguments[0])
        return self._of_several(node, function, tuple(arguments))

    def _of_one(self, node: Call, function: Function, argument: Closure) -> Closure:
        body, name, most = function.body, node.name, self._most
        if not function.weight:
            return lambda attributes: body(argument(attributes))

        def call(attributes: Attributes) -> Value:
            text: str = argument(attributes)  # type: ignore[assignment]
            if len(text) > most:
                raise too_long(name, len(text))
            return body(text)

        return call

    def _of_several(self, node: Call, function: Function, arguments: tuple[Closure, ...]) -> Closure:
        body, name, most = function.body, node.name, self._most if function.weight else None

        def call(attributes: Attributes) -> Value:
            values = [argument(attributes) for argument in arguments]
            if most is not None and len(values[0]) > most:  # type: ignore[arg-type]
                raise too_long(name, len(values[0]))  # type: ignore[arg-type]
            try:
                return body(*values)
            except Fault as fault:
                fault.node = node  # if this is the whole expression, it returns the value of the fault
                raise

        return call

    def _joined(self, node: Call, function: Function, arguments: tuple[Closure, ...]) -> Closure:
        """CONCAT and CONCAT_WS: what counts is the length of the result."""
        join, name, most, is_metered = function.body, node.name, self._most, self._is_metered
        delimited = bool(function.parameters)

        def call(attributes: Attributes) -> Value:
            texts: list[str] = [argument(attributes) for argument in arguments]  # type: ignore[misc]
            delimiter = texts.pop(0) if delimited else ""
            # To join a few texts of an event, which together are not large, costs less than to add up their lengths.
            if len(texts) > 16 and (length := _joined_length(texts, delimiter)) > most:
                raise too_long(name, length)
            joined: str = join(delimiter, texts)  # type: ignore[assignment]
            if len(joined) > most:
                raise too_long(name, len(joined))
            if is_metered:
                _pay(attributes, name, joined, 1)
            return joined

        return call


def _joined_length(texts: list[str], delimiter: str) -> int:
    return sum(map(len, texts)) + len(delimiter) * (len(texts) - 1)


def _pay(attributes: Attributes, what: str, text: str, times: int) -> None:
    if len(text) > TEXT_MAX:
        raise too_long(what, len(text))
    assert isinstance(attributes, Metered)
    attributes.spend(len(text) * times)


def _attribute(name: str) -> Closure:
    def attribute(attributes: Attributes) -> Value:
        try:
            return attributes[name]
        except KeyError:
            raise Fault(ErrorKind.MISSING_ATTRIBUTE, f"the event has no attribute {name!r}") from None

    return attribute


def _divide(left: int, right: int) -> int:
    """The result is truncated toward zero; Python's `//` rounds down."""
    if right == 0:
        raise Fault(ErrorKind.MATH, "division by zero", 0)
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int:
    """The remainder has the sign of the left operand; that of Python's `%` has the sign of the right operand."""
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


def _texts(node: In) -> frozenset[str] | None:
    """Returns the items if all are written as strings, which are looked up instead of compared one by one."""
    texts = [item.value for item in node.items if isinstance(item, Literal) and isinstance(item.value, str)]
    return frozenset(texts) if len(texts) == len(node.items) else None


def _among(value: Value, items: tuple[Closure, ...], attributes: Attributes) -> bool:
    cast = _CASTS[type_of(value)]
    return any(cast(item(attributes)) == value for item in items)


def _missing_function(node: Call) -> Closure:
    count = len(node.arguments)
    message = f"there is no function {node.name} with {count} argument{'' if count == 1 else 's'}"

    def missing(attributes: Attributes) -> Value:
        raise Fault(ErrorKind.MISSING_FUNCTION, message)

    return missing
