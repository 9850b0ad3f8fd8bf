"""CESQL on texts that nobody wrote by hand: nothing raises but the syntax error, and two evaluators agree."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from knative.cesql import CesqlSyntaxError, compile
from knative.cesql.parser import parse
from tests.unit.knative.cesql.reference import evaluate

WORDS = [
    *(
        "AND",
        "OR",
        "XOR",
        "NOT",
        "LIKE",
        "IN",
        "EXISTS",
        "TRUE",
        "FALSE",
        "a",
        "b",
        "1st",
        "'x'",
        '"%"',
        "'1'",
        "0",
        "7",
    ),
    *(
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "!=",
        "<>",
        "<",
        ">=",
        "-2147483648",
        "ABS",
        "LENGTH",
        "LEFT",
        "CONCAT",
    ),
]
FUNCTIONS = ["ABS", "LENGTH", "INT", "BOOL", "STRING", "IS_INT", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "CONCAT"]
NUMBERS = st.integers(-(2**31), 2**31 - 1)
VALUES = st.one_of(st.text(max_size=6), NUMBERS, st.booleans(), st.sampled_from(["true", "-1"]))
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "c", "1st"]), VALUES)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "''") + "'"


_ATOMS = st.one_of(
    st.sampled_from(["a", "b", "c", "1st", "TRUE", "FALSE"]),
    st.integers(-5, 5).map(str),
    st.sampled_from(["2147483647", "-2147483648"]),
    st.text(alphabet="ab1%_ ü", max_size=4).map(_quoted),
    st.sampled_from(["EXISTS a", "EXISTS id"]),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["AND", "OR", "XOR", "=", "!=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"]
    pattern = st.text(alphabet="ab1%_\\", max_size=5).map(lambda text: _quoted(text + "%"))
    return st.one_of(
        st.tuples(inner, st.sampled_from(operators), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("NOT {}".format),
        inner.map("- {}".format),
        st.tuples(inner, st.sampled_from([" LIKE ", " NOT LIKE "]), pattern).map("".join),
        st.tuples(inner, st.sampled_from([" IN ", " NOT IN "]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda parts: f"{parts[0]}{parts[1]}({', '.join(parts[2])})"
        ),
        st.tuples(
            st.sampled_from(
                ["ABS", "LENGTH", "INT", "BOOL", "STRING", "IS_INT", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "CONCAT"]
            ),
            st.lists(inner, max_size=3),
        ).map(lambda parts: f"{parts[0]}({', '.join(parts[1])})"),
    )


EXPRESSIONS = st.recursive(_ATOMS, _larger, max_leaves=12)


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join), st.lists(st.sampled_from(WORDS)).map("".join))
)
def test_any_text_is_an_expression_or_a_syntax_error_within_the_text(text: str) -> None:
    expression, position, message = None, 0, ""
    try:
        expression = compile(text)
    except CesqlSyntaxError as problem:
        position, message = problem.position, str(problem)
    assert 0 <= position <= len(text)
    assert "\n" not in message
    if expression is not None:
        _, errors = expression.evaluate({})
        assert len(errors) <= 1


@given(EXPRESSIONS, EVENTS)
def test_compiled_expression_agrees_with_the_reference(text: str, event: dict[str, Any]) -> None:
    try:
        node = parse(text)
    except CesqlSyntaxError:  # such as a sign that follows a value
        return
    value, errors = compile(text).evaluate(event)
    expected, problems = evaluate(node, event)
    assert (value, type(value), [error.kind.value for error in errors]) == (expected, type(expected), problems)


@given(EXPRESSIONS, EVENTS)
def test_parentheses_around_the_whole_change_nothing(text: str, event: dict[str, Any]) -> None:
    try:
        alone = compile(text)
    except CesqlSyntaxError:
        return
    assert compile(f"({text})").evaluate(event) == alone.evaluate(event)
