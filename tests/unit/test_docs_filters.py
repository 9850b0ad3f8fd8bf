"""The examples of the filter reference: each has the result that the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knative import cesql
from knative.filters import compile_filter, from_json

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "filters.md"
_EXAMPLE = re.compile(r"^(filter|expression): +(.+)\nevent: +(.+)\nresult: +(.+)$", re.MULTILINE)
_EXAMPLES = _EXAMPLE.findall(_PAGE.read_text(encoding="utf-8"))


def test_page_has_examples_of_both_kinds() -> None:
    assert {kind for kind, *_ in _EXAMPLES} == {"filter", "expression"}
    assert len(_EXAMPLES) == _PAGE.read_text(encoding="utf-8").count("\nresult:")


@pytest.mark.parametrize(("kind", "written", "event", "result"), _EXAMPLES)
def test_example_has_its_result(kind: str, written: str, event: str, result: str) -> None:
    answer = _of_filter(written, json.loads(event)) if kind == "filter" else _of_expression(written, json.loads(event))
    assert answer == result


def _of_filter(written: str, attributes: dict[str, str]) -> str:
    compiled = compile_filter(from_json(json.loads(written)))
    return "matches" if compiled is None or compiled.matches(attributes) else "does not match"


def _of_expression(text: str, attributes: dict[str, str]) -> str:
    try:
        value, errors = cesql.compile(text).evaluate(attributes)
    except cesql.CesqlSyntaxError as problem:
        return str(problem.kind)
    literal = str(value).lower() if isinstance(value, bool) else repr(value)
    return ", ".join([literal, *(str(error.kind) for error in errors)])
