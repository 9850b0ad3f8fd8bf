"""Tables for people."""

from __future__ import annotations

import pytest

from app.cli.output.format import print_table


def test_cells_have_no_terminal_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"reason": "REASON"}, [{"reason": "no\x1b[2Jsuch thing"}, {"reason": "two\nlines, für alle"}], "")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"no\x1b[2Jsuch thing" in shown
    assert "lines, für alle" in shown
