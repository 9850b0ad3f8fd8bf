"""Filters as people write them: what they mean, and the field of every mistake."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from knative.filters import ALL_EVENTS, to_json
from knative.resources.object_reader import FieldProblem, ObjectReader
from knative.resources.trigger_filters import CHARACTERS_MAX, DEPTH_MAX, OPERANDS_MAX, PARTS_MAX, read_filter


def _read(text: str | dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    problems: list[FieldProblem] = []
    written = yaml.safe_load(text) if isinstance(text, str) else text
    filter_ = read_filter(ObjectReader(written, ("spec",), problems))
    return to_json(filter_), [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("text", "filter_"),
    [
        ("{}", {"all": []}),
        ("filter: {}", {"all": []}),
        ("filter: {attributes: {}}", {"all": []}),
        ("filter: {attributes: {type: a, source: ''}}", {"attributes": {"type": "a", "source": ""}}),
        ("filters: []", {"all": []}),
        ("filters: []\nfilter: {attributes: {type: a}}", {"attributes": {"type": "a"}}),
        ("filters: [{exact: {type: b}}]\nfilter: {attributes: {type: a}}", {"exact": {"type": "b"}}),
        ("filters: [{exact: {id: b}}, {cesql: 'hop < 3'}]", {"all": [{"exact": {"id": "b"}}, {"cesql": "hop < 3"}]}),
        ("filters: [{any: []}]", {"any": []}),
        ("filters: [{exact: {v2: b}}]", {"exact": {"v2": "b"}}),
        ("filters: [{cesql: \"1st = 'x'\"}]", {"cesql": "1st = 'x'"}),
        ("filters: [{all: [{not: {suffix: {id: x}}}]}]", {"all": [{"not": {"suffix": {"id": "x"}}}]}),
    ],
)  # fmt: skip
def test_valid_filter_is_read(text: str, filter_: dict[str, Any]) -> None:
    assert _read(text) == (filter_, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("filters: [{exact: {type: ''}}]", "spec.filters[0].exact: has an empty value for 'type'"),
        ("filters: [{exact: {'': x}}]", "spec.filters[0].exact: has an empty attribute name"),
        ("filter: {attributes: {'': x}}", "spec.filter.attributes: has an empty attribute name"),
        ("filter: {attributes: {Type: x}}", "spec.filter.attributes: 'Type' is not a valid attribute name"),
        ("filter: {attributes: {1st: x}}", "spec.filter.attributes: '1st' is not a valid attribute name"),
        ("filters: [{exact: {1st: x}}]", "spec.filters[0].exact: '1st' is not a valid attribute name"),
        ("filters: [{not: {suffix: {'7': x}}}]", "spec.filters[0].not.suffix: '7' is not a valid attribute name"),
        ("filter: {attribute: {type: x}}", "spec.filter.attribute: is not a known field; did you mean `attributes`?"),
        ("filters: [{prefix: {a: 3}}]", "spec.filters[0].prefix.a: is the number 3, not text"),
        ("filters: [{suffix: {a: true}}]", "spec.filters[0].suffix.a: is the boolean true, not text"),
        ("filters: [{exact: {}}]", "spec.filters[0].exact: is empty"),
        ("filters: [{exact: x}]", "spec.filters[0].exact: is the text 'x', not a mapping"),
        ("filters: [{}]", "spec.filters[0]: has no dialect"),
        ("filters: [{like: {}}]", "spec.filters[0].like: is not a known field"),
        ("filters: [{exakt: {type: a}}]", "spec.filters[0].exakt: is not a known field; did you mean `exact`?"),
        ("filters: [{exact: {a: b}, prefix: {a: b}}]", "spec.filters[0]: has 2 dialects: exact, prefix"),
        ("filters: {exact: {a: b}}", "spec.filters: is a mapping, not a list"),
        ("filters: [x]", "spec.filters[0]: is the text 'x', not a mapping"),
        ("filters: [{cesql: ''}]", "spec.filters[0].cesql: is missing"),
        ("filters: [{cesql: 'a ='}]", "spec.filters[0].cesql: is not a valid expression: at character 4"),
        ("filters: [{all: [{any: [{cesql: '1-1'}]}]}]", "spec.filters[0].all[0].any[0].cesql: is not"),
        ("filters: [{not: [{exact: {a: b}}]}]", "spec.filters[0].not: is a list, not a mapping"),
        ("filters: [{all: {exact: {a: b}}}]", "spec.filters[0].all: is a mapping, not a list"),
    ],
)  # fmt: skip
def test_mistake_is_reported_once_with_its_field(text: str, problem: str) -> None:
    _, problems = _read(text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_all_mistakes_are_reported_together() -> None:
    _, problems = _read("filter: {attributes: {A: x}}\nfilters: [{exact: {b: ''}}, {cesql: '='}, {any: [{}]}]")
    assert len(problems) == 4


def test_filters_that_are_too_deep_or_too_many_are_rejected() -> None:
    deep: dict[str, Any] = {"exact": {"a": "b"}}
    for _ in range(DEPTH_MAX):
        deep = {"not": deep}
    assert "nested deeper" in _read({"filters": [deep]})[1][0]
    many = {"filters": [{"exact": {"a": "b"}}] * PARTS_MAX}
    assert "conditions" in _read(many)[1][0]
    long = {"filters": [{"exact": {"a": "b" * CHARACTERS_MAX}}]}
    assert "characters" in _read(long)[1][0]
    half = f"a IN ({', '.join(['b'] * (OPERANDS_MAX // 2 - 2))})"
    assert _read({"filters": [{"cesql": half}, {"cesql": half}]})[1] == []
    problems = _read({"filters": [{"cesql": half}, {"any": [{"cesql": half}, {"cesql": "a"}]}]})[1]
    assert problems == [
        "spec.filters: have more than 10000 operators and operands of CESQL together; write several Triggers"
    ]


def test_without_filters_every_event_passes() -> None:
    assert read_filter(ObjectReader({}, ("spec",), [])) is ALL_EVENTS
