"""A second evaluator of CESQL, for comparison: a plain recursion over the nodes that returns (value, errors).

It shares the parser with the product, and nothing else: casts, operators and functions are written again, as directly
as the specification has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knative.cesql.parser import Attribute, Binary, Call, Exists, In, Like, Literal, Logic, Minus, Node, Not

Result = tuple[Any, list[str]]

ZERO = {str: "", int: 0, bool: False}
LOW, HIGH = -2147483648, 2147483647
SPACES = {*"\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000", *map(chr, range(0x2000, 0x200B))}


def evaluate(node: Node, event: Mapping[str, Any]) -> Result:
    match node:
        case Literal():
            return node.value, []
        case Attribute():
            return (event[node.name], []) if node.name in event else (False, ["missingAttribute"])
        case Exists():
            return node.name in {"id", "source", "type", "specversion"} or node.name in event, []
        case Not():
            return _lift(bool, [(node.operand, bool)], lambda x: (not x, []), event)
        case Minus():
            return _lift(int, [(node.operand, int)], lambda x: _fit(-x), event)
        case Binary() if node.operator in "+-*/%":
            return _lift(
                int, [(node.left, int), (node.right, int)], lambda x, y: _arithmetic(node.operator, x, y), event
            )
        case Binary() if node.operator in ("<", "<=", ">", ">="):
            return _lift(
                bool, [(node.left, int), (node.right, int)], lambda x, y: (_order(node.operator, x, y), []), event
            )
        case Binary():
            return _equality(node, event)
        case Logic():
            return _logic(list(node.operands), list(node.operators), event)
        case Like():
            return _lift(
                bool, [(node.operand, str)], lambda x: (_like(x, _tokens(node.pattern)) is not node.negated, []), event
            )
        case In():
            return _in(node, event)
        case Call():
            return _call(node, event)
    raise AssertionError(node)


def _lift(zero: type, operands: list[tuple[Node, type | None]], compute: Callable[..., Result], event: Any) -> Result:
    values = []
    for operand, type_ in operands:
        value, errors = evaluate(operand, event)
        if not errors and type_ is not None:
            value, errors = cast(value, type_)
        if errors:
            return ZERO[zero], errors
        values.append(value)
    return compute(*values)


def _integers(node: Binary) -> list[tuple[Node, type | None]]:
    return [(node.left, int), (node.right, int)]


def cast(value: Any, type_: type) -> Result:
    if type(value) is type_:
        return value, []
    if type_ is str:
        return {True: "true", False: "false"}[value] if type(value) is bool else str(value), []
    if type_ is bool:
        if type(value) is int:
            return value != 0, []
        if value.lower() in ("true", "false"):
            return value.lower() == "true", []
        return False, ["cast"]
    if type(value) is bool:
        return (1 if value else 0), []
    digits = value[1:] if value[:1] in ("+", "-") else value
    if digits and all(c in "0123456789" for c in digits) and len(value) <= 64 and LOW <= int(value) <= HIGH:
        return int(value), []
    return 0, ["cast"]


def _fit(number: int) -> Result:
    return (number, []) if LOW <= number <= HIGH else (0, ["math"])


def _arithmetic(operator: str, x: int, y: int) -> Result:
    if operator in "/%":
        if y == 0:
            return 0, ["math"]
        quotient = abs(x) // abs(y)
        if (x < 0) != (y < 0):
            quotient = -quotient
        return _fit(quotient if operator == "/" else x - y * quotient)
    return _fit({"+": x + y, "-": x - y, "*": x * y}[operator])


def _order(operator: str, x: int, y: int) -> bool:
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[operator]


def _equality(node: Binary, event: Any) -> Result:
    left, errors = evaluate(node.left, event)
    if not errors:
        right, errors = evaluate(node.right, event)
    if not errors:
        left, errors = cast(left, type(right))
    return (False, errors) if errors else ((left == right) is (node.operator == "="), [])


def _logic(operands: list[Node], operators: list[str], event: Any) -> Result:
    left, errors = evaluate(operands[0], event)
    if not errors:
        left, errors = cast(left, bool)
    if errors:
        return False, errors
    if not operators:
        return left, []
    if (operators[0] == "AND" and not left) or (operators[0] == "OR" and left):
        return left, []
    right, errors = _logic(operands[1:], operators[1:], event)
    if errors:
        return False, errors
    return (left != right if operators[0] == "XOR" else right), []


def _tokens(pattern: str) -> list[str]:
    tokens, i = [], 0
    while i < len(pattern):
        if pattern[i] == "\\" and pattern[i + 1 : i + 2] in ("%", "_"):
            tokens.append("=" + pattern[i + 1])
            i += 2
        else:
            tokens.append(pattern[i] if pattern[i] in "%_" else "=" + pattern[i])
            i += 1
    return tokens


def _like(text: str, tokens: list[str]) -> bool:
    """Which beginnings of the pattern fit which beginnings of the text, one character after the other."""
    fits = [True] + [False] * len(tokens)
    for position, token in enumerate(tokens):
        fits[position + 1] = fits[position] and token == "%"
    for character in text:
        after = [False] * (len(tokens) + 1)
        for position, token in enumerate(tokens):
            if token == "%":
                after[position + 1] = fits[position + 1] or after[position] or fits[position]
            elif token == "_" or token == "=" + character:
                after[position + 1] = fits[position]
        fits = after
    return fits[-1]


def _in(node: In, event: Any) -> Result:
    left, errors = evaluate(node.operand, event)
    if errors:
        return False, errors
    for item in node.items:
        value, errors = evaluate(item, event)
        if not errors:
            value, errors = cast(value, type(left))
        if errors:
            return False, errors
        if value == left:
            return not node.negated, []
    return node.negated, []


def _call(node: Call, event: Any) -> Result:
    count = len(node.arguments)
    signature = SIGNATURES.get((node.name, count))
    if signature is None and node.name == "CONCAT":
        signature = (str, [str] * count, lambda *texts: ("".join(texts), []))
    if signature is None and node.name == "CONCAT_WS" and count:
        signature = (str, [str] * count, lambda between, *texts: (between.join(texts), []))
    if signature is None:
        return False, ["missingFunction"]
    zero, types, compute = signature
    return _lift(zero, list(zip(node.arguments, types, strict=True)), compute, event)


def _trim(text: str) -> Result:
    while text and text[0] in SPACES:
        text = text[1:]
    while text and text[-1] in SPACES:
        text = text[:-1]
    return text, []


def _substring(text: str, position: int, length: int | None = None) -> Result:
    if position == 0:
        return "", []
    if position > len(text) or position < -len(text) or (length is not None and length < 0):
        return "", ["functionEvaluation"]
    rest = text[position - 1 :] if position > 0 else text[len(text) + position :]
    return rest if length is None else rest[:length], []


def _ends(text: str, length: int, part: Callable[[], str]) -> Result:
    if length < 0:
        return text, ["functionEvaluation"]
    return (text if len(text) <= length else part()), []


SIGNATURES: dict[tuple[str, int], tuple[type, list[Any], Callable[..., Result]]] = {
    ("LENGTH", 1): (int, [str], lambda x: (len(x), [])),
    ("LOWER", 1): (str, [str], lambda x: (x.lower(), [])),
    ("UPPER", 1): (str, [str], lambda x: (x.upper(), [])),
    ("TRIM", 1): (str, [str], _trim),
    ("LEFT", 2): (str, [str, int], lambda x, n: _ends(x, n, lambda: x[:n])),
    ("RIGHT", 2): (str, [str, int], lambda x, n: _ends(x, n, lambda: x[len(x) - n :])),
    ("SUBSTRING", 2): (str, [str, int], _substring),
    ("SUBSTRING", 3): (str, [str, int, int], _substring),
    ("ABS", 1): (int, [int], lambda x: (HIGH, ["math"]) if x == LOW else (abs(x), [])),
    ("INT", 1): (int, [None], lambda x: cast(x, int)),
    ("BOOL", 1): (bool, [None], lambda x: cast(x, bool)),
    ("STRING", 1): (str, [None], lambda x: cast(x, str)),
    ("IS_INT", 1): (bool, [None], lambda x: (not cast(x, int)[1], [])),
    ("IS_BOOL", 1): (bool, [None], lambda x: (not cast(x, bool)[1], [])),
}
