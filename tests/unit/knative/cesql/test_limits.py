"""What an evaluation may handle: beyond that it ends with the error `generic`, and below it nothing changes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from knative.cesql import BUDGET, TEXT_MAX, CesqlSyntaxError, ErrorKind, Fault, LimitExceeded, Metered, compile
from tests.unit.knative.cesql.test_properties import EVENTS, EXPRESSIONS

LONG = "a" * TEXT_MAX
TOO_LONG = LONG + "a"
PATTERN = "%" + "a" * 100 + "b%"


def _or(term: str, count: int) -> str:
    return " OR ".join([term] * count)


def _joined(term: str, count: int) -> str:
    return ", ".join([term] * count)


EXCEEDED: list[tuple[str, str, Any]] = [
    (f"LENGTH(CONCAT({_joined('a', 5_000)})) > 0", "a" * 120_000, False),
    (f"CONCAT({_joined('a', 2)})", "a" * (TEXT_MAX // 2 + 1), ""),
    (f"CONCAT_WS(a, {_joined('b', 5_000)}) = ''", "a" * 100, False),
    (f"LENGTH(CONCAT({_joined('LOWER(a)', 100)})) > 0", "a" * 60_000, False),
    (_or(f"a LIKE '{PATTERN}'", 130), LONG, False),
    ("a LIKE '%b%'", TOO_LONG, False),
    ("a NOT LIKE '%b%'", TOO_LONG, False),
    (f"a LIKE '%{'a_' * 50}b%'", LONG, False),
    ("LOWER(a) = 'x'", TOO_LONG, False),
    ("UPPER(a) = 'x'", TOO_LONG, False),
    (_or("UPPER(a) = 'x'", 2), LONG, False),
    (_or("TRIM(a) = 'x'", 2), " " * TEXT_MAX, False),
    ("LEFT(a, 1)", TOO_LONG, ""),
    ("RIGHT(a, 1)", TOO_LONG, ""),
    ("SUBSTRING(a, 2)", TOO_LONG, ""),
    ("SUBSTRING(a, 2, 3)", TOO_LONG, ""),
    (_or("LEFT(a, 60000) = 'x'", 17), LONG, False),
    (_or("a != a", 17), LONG, False),
    ("a = a", TOO_LONG, False),
    (_or("CONCAT(a, a) = 'x'", 17), LONG[: TEXT_MAX // 2], False),
    (_or("CONCAT_WS(a, '', '') = 'x'", 17), LONG, False),
    (f"a IN ({_joined('a', 20)}, b)", TOO_LONG, False),
    (f"a IN ({_joined('b', 20)})", LONG, False),
    ("(FALSE AND TRUE) OR " + _or("UPPER(a) = 'x'", 3), "ß" * TEXT_MAX, False),
]

ALLOWED: list[tuple[str, str, Any]] = [
    ("LENGTH(CONCAT(a, a))", "a" * (TEXT_MAX // 2), TEXT_MAX),
    ("LENGTH(CONCAT_WS('-', a, a))", "a" * (TEXT_MAX // 2 - 1), TEXT_MAX - 1),
    ("LENGTH(a)", TOO_LONG, TEXT_MAX + 1),
    ("a = 'x'", TOO_LONG, False),
    ("a IN ('x', 'y')", TOO_LONG, False),
    ("a LIKE 'a%a' AND a LIKE 'aaa%' AND a LIKE '%aaa'", TOO_LONG, True),
    ("a LIKE 'a_%' AND a NOT LIKE '_'", TOO_LONG, True),
    (_or(f"a LIKE '{PATTERN}'", 16), LONG, False),
    (_or(f"a LIKE '{PATTERN}'", 130), "a" * 8_000, False),
    (_or("UPPER(a) = 'x'", 100), "a" * 600, False),
    (_or("CONCAT(a, a) = 'x'", 16), LONG[: TEXT_MAX // 2], False),
    ("FALSE AND LOWER(a) = 'x'", TOO_LONG, False),
    ("LENGTH(UPPER(a))", "ß" * TEXT_MAX, 2 * TEXT_MAX),
]


@pytest.mark.parametrize(("text", "attribute", "zero"), EXCEEDED, ids=range(len(EXCEEDED)))
def test_evaluation_that_would_handle_too_much_ends_with_an_error(text: str, attribute: str, zero: Any) -> None:
    expression, event = compile(text), {"a": attribute, "b": attribute[:-1] + "x"}
    tracemalloc.start()
    value, errors = expression.evaluate(event)
    matches = expression.matches(event)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (value, [error.kind for error in errors]) == (zero, [ErrorKind.GENERIC])
    assert f"{TEXT_MAX:,}" in errors[0].message or f"{BUDGET:,}" in errors[0].message
    assert not matches
    assert peak_bytes < 4 * BUDGET


@pytest.mark.parametrize(("text", "attribute", "value"), ALLOWED, ids=range(len(ALLOWED)))
def test_what_fits_into_the_limits_has_its_value(text: str, attribute: str, value: Any) -> None:
    expression = compile(text)
    assert expression.evaluate({"a": attribute}) == (value, [])
    assert expression.matches({"a": attribute}) is (value is True)


def test_what_exceeds_a_limit_is_not_skipped_by_operators_around_it() -> None:
    assert compile("TRUE OR LOWER(a) = 'x'").evaluate({"a": TOO_LONG}) == (True, [])
    value, errors = compile("LOWER(a) = 'x' OR TRUE").evaluate({"a": TOO_LONG})
    assert (value, [error.kind for error in errors]) == (False, [ErrorKind.GENERIC])


@pytest.mark.parametrize("pattern", [PATTERN, "%a%a%aa%ab%", "a%" * 20, "%" + "a%" * 100 + "b"])
def test_pattern_handles_each_character_once(pattern: str) -> None:
    metered = Metered({"a": LONG})
    compile(f"a LIKE '{pattern}'").metered(metered)
    assert metered.left == BUDGET - TEXT_MAX


def test_explanation_obeys_the_limits() -> None:
    (step,) = compile("LOWER(a) = 'x' OR TRUE").explain({"a": TOO_LONG})
    assert (step.value, step.decides, [error.kind for error in step.errors]) == (False, True, [ErrorKind.GENERIC])
    steps = list(compile("FALSE AND LOWER(a) = 'x'").explain({"a": TOO_LONG}))
    kinds = {step.text: [error.kind for error in step.errors] for step in steps}
    assert kinds["FALSE AND LOWER(a) = 'x'"] == []
    assert kinds["LOWER(a) = 'x'"] == kinds["LOWER(a)"] == [ErrorKind.GENERIC]


def _outcome(closure: Any, event: Any) -> Any:
    try:
        value = closure(event)
    except (Fault, LimitExceeded) as problem:
        return problem.error
    return value, type(value)


@given(EXPRESSIONS, EVENTS)
def test_counting_changes_no_value(text: str, event: dict[str, Any]) -> None:
    try:
        expression = compile(text)
    except CesqlSyntaxError:
        return
    assert _outcome(expression.metered, Metered(event)) == _outcome(expression.closure, event)


@given(EXPRESSIONS, EVENTS)
def test_no_long_text_makes_an_evaluation_raise(text: str, event: dict[str, Any]) -> None:
    try:
        expression = compile(text)
    except CesqlSyntaxError:
        return
    long = {name: value * 30_000 if isinstance(value, str) else value for name, value in event.items()}
    value, errors = expression.evaluate(long)
    assert expression.matches(long) is (value is True and not errors)
