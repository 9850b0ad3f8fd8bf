"""Words of the page that have no figure."""

from __future__ import annotations

import pytest

from analytics.topology.report import words


@pytest.mark.parametrize(
    ("severity", "number", "expected"),
    [("warning", 1, "warning"), ("warning", 2, "warnings"), ("critical", 2, "critical"), ("info", 2, "info")],
)
def test_only_warnings_have_a_plural(severity: str, number: int, expected: str) -> None:
    assert words.tally(severity, number) == expected
