"""Two rings of tests at the same time: what is shown, and what a failure of either does to the other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.rings import run_beside

_OK = [sys.executable, "-c", ""]


def script(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(("import sys, time", "from pathlib import Path", *lines))]


def marks(path: Path) -> list[str]:
    """A program that says that it has run."""
    return script(f"Path({str(path)!r}).touch()")


@pytest.mark.parametrize(
    ("first", "prepare", "second", "code"), [(0, 0, 0, 0), (3, 0, 0, 3), (0, 4, 0, 4), (0, 0, 5, 5)]
)
def test_the_exit_code_is_that_of_what_failed(first: int, prepare: int, second: int, code: int) -> None:
    found = run_beside(script(f"sys.exit({first})"), script(f"sys.exit({prepare})"), script(f"sys.exit({second})"))
    assert found == code


def test_the_second_begins_after_the_preparation_and_not_if_that_fails(tmp_path: Path) -> None:
    prepared, ran = tmp_path / "prepared", tmp_path / "ran"
    needs_it = script(f"sys.exit(not Path({str(prepared)!r}).exists())", f"Path({str(ran)!r}).touch()")
    assert run_beside(_OK, marks(prepared), needs_it) == 0
    assert run_beside(_OK, script("sys.exit(1)"), marks(ran)) == 1
    assert not ran.exists()


def test_a_first_that_fails_interrupts_the_second(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    began = tmp_path / "began"
    fails = script(
        "print('why', flush=True)", f"while not Path({str(began)!r}).exists():", "    time.sleep(0.01)", "sys.exit(7)"
    )
    waits = script(
        "try:", f"    Path({str(began)!r}).touch()", "    time.sleep(600)",
        "except KeyboardInterrupt:", "    print('interrupted')", "    sys.exit(2)",
    )  # fmt: skip
    assert run_beside(fails, _OK, waits) == 7
    out = capfd.readouterr().out
    assert "this one is interrupted" in out
    assert out.splitlines()[-2:] == ["interrupted", "why"]
