"""The answers of `penstock doctor` to facts that a test has made up."""

from __future__ import annotations

from typing import NamedTuple

from app.operations.doctor.table import Facts, answers


class Row(NamedTuple):
    """A line."""

    name: str
    level: str
    text: str
    hint: str


def rows(facts: Facts) -> list[Row]:
    """All lines. What is not well has a hint, and nothing else has one."""
    lines = [Row(check.name, answer.level.value, answer.text, answer.hint) for check, answer in answers(facts)]
    for row in lines:
        assert bool(row.hint) == (row.level in ("warning", "problem")), row
    return lines
