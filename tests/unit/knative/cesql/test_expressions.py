"""CESQL 1.0, a table for each section of the specification: value and error of every expression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from knative.cesql import CesqlSyntaxError, compile
from knative.cesql.parser import DEPTH_MAX, LENGTH_MAX, parse
from tests.unit.knative.cesql.reference import evaluate

EVENT: dict[str, Any] = {
    "id": "a-1",
    "source": "https://example.com/orders?x=1#y",
    "type": "order.created",
    "specversion": "1.0",
    "subject": "größe",
    "time": "2024-02-29T12:30:00.5Z",
    "sequence": "10",
    "hop": 3,
    "urgent": True,
    "flag": "TRUE",
    "empty": "",
    "lines": "one\ntwo",
    "1st": "first",
    "and2": "x",
}
TABLES: dict[str, list[list[Any]]] = yaml.safe_load((Path(__file__).parent / "expressions.yaml").read_text("utf-8"))
NOT_VALID = TABLES.pop("not_valid")
ROWS = [(section, *row[:2], row[2] if len(row) > 2 else None) for section, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("section", "text", "value", "error"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_expression_has_the_value_and_the_error_of_the_specification(
    section: str, text: str, value: Any, error: str | None
) -> None:
    result, errors = compile(text).evaluate(EVENT)
    assert (result, type(result), [evaluation_error.kind.value for evaluation_error in errors]) == (
        value,
        type(value),
        [error] if error else [],
    )
    assert compile(text).matches(EVENT) is (value is True and not error)


@pytest.mark.parametrize("text", [row[1] for row in ROWS])
def test_reference_evaluator_agrees_on_each_expression(text: str) -> None:
    value, errors = compile(text).evaluate(EVENT)
    assert evaluate(parse(text), EVENT) == (value, [error.kind.value for error in errors])


@pytest.mark.parametrize(("text", "position", "reason"), NOT_VALID, ids=[row[0][:20] or "empty" for row in NOT_VALID])
def test_text_that_is_not_an_expression_is_rejected_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(CesqlSyntaxError) as error:
        compile(text)
    assert reason in str(error.value)
    assert error.value.position == position


def test_expression_that_is_too_deep_or_too_long_is_rejected() -> None:
    deep = "NOT " * DEPTH_MAX + "a"
    with pytest.raises(CesqlSyntaxError, match="nested deeper"):
        compile(deep)
    with pytest.raises(CesqlSyntaxError, match="does not fit into 32 bits"):
        compile("1" * 5000)
    with pytest.raises(CesqlSyntaxError, match="write at most"):
        compile("a" * (LENGTH_MAX + 1))
    assert compile("(" * 3000 + "1" + ")" * 3000).evaluate({}) == (1, [])


def test_long_chain_is_not_deep() -> None:
    chain = " OR ".join(f"a = {n}" for n in range(1000))
    assert compile(chain).matches({"a": "999"})
    assert not compile(chain).matches({"a": "1000"})


def test_many_wildcards_cost_linear_time() -> None:
    """A backtracking match of this pattern would need longer than the universe has existed."""
    pattern = "%a" * 200 + "%b"
    assert not compile(f"x LIKE '{pattern}'").matches({"x": "a" * 2000})
    assert compile(f"x LIKE '{pattern}'").matches({"x": "a" * 2000 + "b"})


def test_explain_gives_each_part_its_own_value() -> None:
    steps = list(compile("NOT (a = 1) AND LENGTH(b) > 2").explain({"a": "2"}))
    assert [(step.depth, step.text, step.value, [e.kind.value for e in step.errors]) for step in steps] == [
        (0, "NOT (a = 1) AND LENGTH(b) > 2", False, ["missingAttribute"]),
        (1, "NOT (a = 1)", True, []),
        (2, "(a = 1)", False, []),
        (3, "a", "2", []),
        (3, "1", 1, []),
        (1, "LENGTH(b) > 2", False, ["missingAttribute"]),
        (2, "LENGTH(b)", 0, ["missingAttribute"]),
        (3, "b", False, ["missingAttribute"]),
        (2, "2", 2, []),
    ]
