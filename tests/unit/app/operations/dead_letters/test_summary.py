"""What a redrive says at its end: counts, reasons and the exit code."""

from __future__ import annotations

import pytest

from app.operations.dead_letters.summary import Summary


@pytest.mark.parametrize(
    ("redriven", "failed", "complete", "stopped", "code"),
    [
        (0, 0, True, "", 0),  # nothing to do
        (5, 0, True, "", 0),
        (5, 0, False, "", 0),  # the limit that was asked for
        (5, 0, True, "it was interrupted", 0),  # at the very end
        (5, 0, False, "it was interrupted", 4),
        (5, 1, True, "", 4),
        (0, 1, True, "", 1),
        (0, 0, False, "it was interrupted", 1),
    ],
)
def test_exit_code_says_what_came_of_it(redriven: int, failed: int, complete: bool, stopped: str, code: int) -> None:
    summary = Summary(redriven + failed, redriven, 0, failed, complete, stopped)
    assert summary.exit_code == code


def test_summary_says_why() -> None:
    summary = Summary(selected=3, redriven=1)
    summary.fail("ns/a", "the answer was 500")
    summary.fail("ns/a", "the answer was 500")
    summary.stopped = "2 letters in a row failed"
    assert summary.as_lines() == [
        "Redriven 1, failed 2, redriven before 0.",
        "  2 x ns/a: the answer was 500",
        "The run ended early: 2 letters in a row failed. Run the command again to continue; "
        "redriven letters are not repeated.",
    ]
    assert summary.as_json()["failures"] == [{"subscription": "ns/a", "reason": "the answer was 500", "count": 2}]
