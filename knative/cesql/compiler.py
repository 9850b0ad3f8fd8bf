"""An expression: evaluates what `knative/cesql/closures` has compiled, within limits, and explains each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from knative.cesql import parser
from knative.cesql.closures import Attributes, Closure, Compiler, children, measure, result_type
from knative.cesql.limits import LimitExceeded, Metered, longest
from knative.cesql.parser import Logic, Node, Not
from knative.cesql.values import ZERO, EvaluationError, Fault, Type, Value


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

    __slots__ = ("_metered", "_node", "closure", "size", "text", "weight")

    def __init__(self, text: str, node: Node, weight: int, size: int, shared_weight: int) -> None:
        """`weight` and `size`: see `closures.measure`. `shared_weight`: of all expressions that share a budget."""
        self.text = text
        self.weight = weight
        self.size = size
        #: Raises Fault, and LimitExceeded if a text is too long to be handled without counting: see `metered`.
        self.closure = Compiler(longest(shared_weight)).closure(node)
        self._node = node
        self._metered: Closure | None = None

    @property
    def metered(self) -> Callable[[Metered], Value]:
        """Compiles like `closure`, for attributes that count what is handled. Raises LimitExceeded when that is too
        much."""
        if self._metered is None:  # few expressions ever need it
            self._metered = _metered(self._node)
        return self._metered

    def evaluate(self, attributes: Attributes) -> tuple[Value, list[EvaluationError]]:
        """Returns the value, and what went wrong. Never raises. Attributes have lower-case names."""
        try:
            return self.closure(attributes), []
        except (Fault, LimitExceeded):
            return _evaluate(self._node, self.metered, attributes)

    def matches(self, attributes: Attributes) -> bool:
        """Returns whether an event with these attributes passes: the value is true, and there is no error."""
        try:
            return self.closure(attributes) is True
        except Fault:
            return False
        except LimitExceeded:
            return self.evaluate(attributes) == (True, [])

    def explain(self, attributes: Attributes) -> Iterator[Step]:
        """Yields each part of the expression with its value, the whole first. Parts that are skipped when the whole is
        evaluated (`false AND part`) have a value here too. If the whole exceeds a limit, there is nothing else."""
        value, errors = _value(self._node, attributes)
        if errors and errors[0].kind is LimitExceeded.kind:
            yield Step(0, self.text[self._node.start : self._node.end], value, tuple(errors), True)
            return
        deciding = _deciding(self._node, attributes)
        for depth, node in _walk(self._node, 0):
            value, errors = _value(node, attributes)
            yield Step(depth, self.text[node.start : node.end], value, tuple(errors), node is deciding)


def compile(text: str) -> Expression:
    """Compile an expression. Raises CesqlSyntaxError with the position."""
    return compile_all([text])[text]


def compile_all(texts: Collection[str]) -> dict[str, Expression]:
    """Compile expressions that are evaluated for the same event, and so share the budget; those that are there twice
    count twice. Raises CesqlSyntaxError."""
    nodes = {text: parser.parse(text) for text in texts}
    measures = {text: measure(node) for text, node in nodes.items()}
    shared = sum(measures[text][0] for text in texts)
    return {text: Expression(text, node, *measures[text], shared) for text, node in nodes.items()}


def _metered(node: Node) -> Closure:
    return Compiler(metered=True).closure(node)


def _evaluate(
    node: Node, metered: Callable[[Metered], Value], attributes: Attributes
) -> tuple[Value, list[EvaluationError]]:
    try:
        return metered(Metered(attributes)), []
    except Fault as fault:
        return (fault.value if fault.node is node else ZERO[result_type(node)]), [fault.error]
    except LimitExceeded as problem:
        return ZERO[result_type(node)], [problem.error]


def _value(node: Node, attributes: Attributes) -> tuple[Value, list[EvaluationError]]:
    return _evaluate(node, _metered(node), attributes)


def _deciding(node: Node, attributes: Attributes) -> Node:
    """Returns the smallest part that alone gives a node its value: what has the error, or where AND or OR ends."""
    _, errors = _value(node, attributes)
    inner: Node | None = None
    if errors:
        inner = next((child for child in children(node) if _value(child, attributes)[1] == errors), None)
    elif isinstance(node, Not):
        inner = node.operand
    elif isinstance(node, Logic):
        inner = _last_operand(node, attributes)
    return node if inner is None else _deciding(inner, attributes)


def _last_operand(node: Logic, attributes: Attributes) -> Node | None:
    """Returns the operand that decides alone: false in `a AND b`, true in `a OR b`. None if several do it together."""
    for operand, operator in zip(node.operands, node.operators, strict=False):
        if operator == "XOR" or operator != node.operators[0]:
            return None
        if _boolean(operand, attributes) is (operator == "OR"):
            return operand
    last = node.operands[-1]
    return last if _boolean(last, attributes) is (node.operators[0] == "OR") else None


def _boolean(node: Node, attributes: Attributes) -> Value:
    return Compiler(metered=True).cast_to(Type.BOOLEAN, node)(Metered(attributes))


def _walk(node: Node, depth: int) -> Iterator[tuple[int, Node]]:
    yield depth, node
    for child in children(node):
        yield from _walk(child, depth + 1)
