"""Parses the text of a CESQL expression into nodes.

The grammar is the one of the specification. Its lexer takes the longest token. Lark takes the first that matches, so
the patterns below exclude each other with look-ahead. Two consequences surprise people and are right: a sign belongs to
the number behind it, so `1-1` is not a valid expression and `1 - 1` is; and `AND`, `OR`, `XOR` have one precedence and
associate to the right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from knative.cesql.values import INTEGER_MAX, INTEGER_MIN, ErrorKind, Value

#: A backslash with its character, or a doubled quote. The lexer lets a lone quote of the string's own kind end it.
_ESCAPED = re.compile(r"\\.|''|\"\"", re.DOTALL).sub

#: Limits of an expression: an evaluation calls one function for each level of nesting.
LENGTH_MAX = 16_384
DEPTH_MAX = 100

_GRAMMAR = r"""
start: logic

?logic: comparison
      | comparison (AND | OR | XOR) logic                                         -> logic
?comparison: additive
      | comparison (EQUAL | NOT_EQUAL | LESS_OR_EQUAL | GREATER_OR_EQUAL | LESS | GREATER) additive -> binary
?additive: multiplicative
      | additive (PLUS | MINUS) multiplicative                                    -> binary
?multiplicative: suffixed
      | multiplicative (STAR | SLASH | PERCENT) suffixed                          -> binary
?suffixed: unary
      | suffixed LIKE STRING                                                      -> like
      | suffixed NOT LIKE STRING                                                  -> not_like
      | suffixed IN LPAR logic (COMMA logic)* RPAR                                -> within
      | suffixed NOT IN LPAR logic (COMMA logic)* RPAR                            -> not_within
?unary: primary
      | NOT unary                                                                 -> negation
      | MINUS unary                                                               -> minus
?primary: (WORD | UNDERSCORED) LPAR (logic (COMMA logic)*)? RPAR                  -> call
      | EXISTS (WORD | WORD_WITH_DIGIT)                                           -> exists
      | LPAR logic RPAR                                                           -> parentheses
      | (WORD | WORD_WITH_DIGIT)                                                  -> attribute
      | INTEGER                                                                   -> integer
      | STRING                                                                    -> string
      | (TRUE | FALSE)                                                            -> boolean

AND.3: /AND(?![a-z0-9_])/i
OR.3: /OR(?![a-z0-9_])/i
XOR.3: /XOR(?![a-z0-9_])/i
NOT.3: /NOT(?![a-z0-9_])/i
LIKE.3: /LIKE(?![a-z0-9_])/i
IN.3: /IN(?![a-z0-9_])/i
EXISTS.3: /EXISTS(?![a-z0-9_])/i
TRUE.3: /TRUE(?![a-z0-9_])/i
FALSE.3: /FALSE(?![a-z0-9_])/i
INTEGER.2: /[+-][0-9]+|[0-9]+(?![A-Za-z0-9])/
UNDERSCORED.2: /[A-Za-z]+_[A-Za-z_]*/
WORD.2: /[A-Za-z]+(?![A-Za-z0-9_])/
WORD_WITH_DIGIT.1: /[A-Za-z0-9]+/
STRING: /"(?:\\.|""|[^"\\])*+"|'(?:\\.|''|[^'\\])*+'/s
NOT_EQUAL.2: "!=" | "<>"
LESS_OR_EQUAL.2: "<="
GREATER_OR_EQUAL.2: ">="
EQUAL: "="
LESS: "<"
GREATER: ">"
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
LPAR: "("
RPAR: ")"
COMMA: ","
%ignore /[ \t\r\n]+/
"""

#: How messages name the tokens. The others are named as they are written.
_NAMES = {
    "WORD": "an attribute",
    "WORD_WITH_DIGIT": "an attribute",
    "UNDERSCORED": "a function",
    "INTEGER": "a number",
    "STRING": "a string in quotes",
    "TRUE": "true",
    "FALSE": "false",
    "NOT_EQUAL": "!=",
    "LESS_OR_EQUAL": "<=",
    "GREATER_OR_EQUAL": ">=",
    "EQUAL": "=",
    "LESS": "<",
    "GREATER": ">",
    "PLUS": "+",
    "MINUS": "-",
    "STAR": "*",
    "SLASH": "/",
    "PERCENT": "%",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "$END": "the end",
}


class CesqlSyntaxError(ValueError):
    """The text is not a valid expression. `position` counts characters from 0; `str()` is one line with the place."""

    kind = ErrorKind.PARSE

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"at character {position + 1}: {reason}")
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression: its place in the text, and how deep the nodes below it are nested."""

    start: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A string, number or boolean as it is written."""

    value: Value


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """The value of an attribute, in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """`EXISTS name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`NOT operand`."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Minus(Node):
    """`-operand`."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """A comparison, or arithmetic. `<>` is stored as `!=`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """Operands joined by AND, OR and XOR: `a AND b OR c` means `a AND (b OR c)`. Each operator follows its operand."""

    operands: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Like(Node):
    """`operand [NOT] LIKE pattern`."""

    operand: Node
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class In(Node):
    """`operand [NOT] IN (items)`."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function, with its name in upper case."""

    name: str
    arguments: tuple[Node, ...]


def parse(text: str) -> Node:
    """Returns the tree of an expression. Raises CesqlSyntaxError."""
    if len(text) > LENGTH_MAX:
        raise CesqlSyntaxError(f"the expression has {len(text)} characters; write at most {LENGTH_MAX}", LENGTH_MAX)
    try:
        tree: Any = _parser().parse(text)
    except VisitError as problem:
        if isinstance(problem.orig_exc, CesqlSyntaxError):
            raise problem.orig_exc from None
        raise
    except UnexpectedInput as problem:
        raise _syntax_error(text, problem) from None
    if not isinstance(tree, Node):
        raise TypeError(f"the parser returned {type(tree).__name__}")
    return tree


@cache
def _parser() -> Lark:
    """The parser is built on first use: that takes some 20 ms, which a worker without CESQL does not pay."""
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder())


def _syntax_error(text: str, problem: UnexpectedInput) -> CesqlSyntaxError:
    if isinstance(problem, UnexpectedCharacters):
        position = problem.pos_in_stream or 0
        character = text[position]
        if character in "\"'":
            return CesqlSyntaxError("the string that begins here has no closing quote", position)
        return CesqlSyntaxError(f"{character!r} is not a valid character here", position)
    assert isinstance(problem, UnexpectedToken)  # the parser raises nothing else
    token = problem.token
    expected = _expected(set(problem.accepts or problem.expected))
    if token.type == "$END":
        return CesqlSyntaxError(f"the expression ends too early; expected {expected}", len(text.rstrip()))
    if token.type == "RPAR" and expected == "the end":
        return CesqlSyntaxError("this ) has no opening (", _start(token))
    signed = token[0] in "+-" and token[1:].isdigit()
    hint = f"; write a space after the sign, as in `1 {token[0]} 1`" if signed else ""
    return CesqlSyntaxError(f"{str(token)[:40]!r} is not valid here; expected {expected}{hint}", _start(token))


def _expected(names: set[str]) -> str:
    if {"WORD", "INTEGER", "STRING"} <= names:
        return "a value, such as an attribute, a number or a string in quotes"
    if "AND" in names:
        return "an operator" + (" or )" if "RPAR" in names else " or the end")
    return " or ".join(dict.fromkeys(sorted(_NAMES.get(name, name) for name in names)))


def _checked(node: Node) -> Node:
    if node.depth > DEPTH_MAX:
        raise CesqlSyntaxError(f"the expression is nested deeper than {DEPTH_MAX} levels", node.start)
    return node


def _depth(*nodes: Node) -> int:
    return 1 + max((node.depth for node in nodes), default=0)


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Builds the nodes while Lark parses, so that no step is recursive."""

    def start(self, node: Node) -> Node:
        return node

    def parentheses(self, left: Token, node: Node, right: Token) -> Node:
        return replace(node, start=_start(left), end=_end(right))

    def logic(self, left: Node, operator: Token, right: Node) -> Node:
        name = operator.upper()
        # Operators associate to the right, so a chain without parentheses is one node: long chains are not deep.
        if isinstance(right, Logic) and right.start == right.operands[0].start:
            operands, operators = (left, *right.operands), (name, *right.operators)
            return _checked(Logic(left.start, right.end, max(_depth(left), right.depth), operands, operators))
        return _checked(Logic(left.start, right.end, _depth(left, right), (left, right), (name,)))

    def binary(self, left: Node, operator: Token, right: Node) -> Node:
        name = "!=" if operator == "<>" else str(operator)
        return _checked(Binary(left.start, right.end, _depth(left, right), name, left, right))

    def like(self, operand: Node, _like: Token, pattern: Token) -> Node:
        return _checked(Like(operand.start, _end(pattern), _depth(operand), operand, _unquoted(pattern), False))

    def not_like(self, operand: Node, _not: Token, _like: Token, pattern: Token) -> Node:
        return _checked(Like(operand.start, _end(pattern), _depth(operand), operand, _unquoted(pattern), True))

    def within(self, operand: Node, *rest: Any) -> Node:
        return self._in(operand, rest, negated=False)

    def not_within(self, operand: Node, *rest: Any) -> Node:
        return self._in(operand, rest, negated=True)

    def _in(self, operand: Node, rest: tuple[Any, ...], *, negated: bool) -> Node:
        items = tuple(item for item in rest if isinstance(item, Node))
        return _checked(In(operand.start, _end(rest[-1]), _depth(operand, *items), operand, items, negated))

    def negation(self, sign: Token, operand: Node) -> Node:
        return _checked(Not(_start(sign), operand.end, _depth(operand), operand))

    def minus(self, sign: Token, operand: Node) -> Node:
        return _checked(Minus(_start(sign), operand.end, _depth(operand), operand))

    def call(self, name: Token, *rest: Any) -> Node:
        arguments = tuple(item for item in rest if isinstance(item, Node))
        return _checked(Call(_start(name), _end(rest[-1]), _depth(*arguments), name.upper(), arguments))

    def exists(self, exists: Token, name: Token) -> Node:
        return Exists(_start(exists), _end(name), 1, name.lower())

    def attribute(self, name: Token) -> Node:
        return Attribute(_start(name), _end(name), 1, name.lower())

    def integer(self, text: Token) -> Node:
        number = int(text) if len(text) <= 64 else INTEGER_MAX + 1
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            raise CesqlSyntaxError(f"{text[:40]} does not fit into 32 bits", _start(text))
        return Literal(_start(text), _end(text), 1, number)

    def string(self, text: Token) -> Node:
        return Literal(_start(text), _end(text), 1, _unquoted(text))

    def boolean(self, text: Token) -> Node:
        return Literal(_start(text), _end(text), 1, text.lower() == "true")


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


def _unquoted(token: Token) -> str:
    r"""Returns the text of a string: a quote inside is written `\'` or `''`. Every other backslash stays as it is."""
    quote = token[0]
    if quote not in token[1:-1]:
        return token[1:-1]
    return _ESCAPED(lambda match: quote if quote in match[0] else match[0], token[1:-1])
