"""What a command says when something is wrong that it does not expect: sentences, and exit codes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[4]
_LIMIT_S = 180.0
_EXPLAIN = ("explain", "payment", "--event", "order.event", "--resources", ".")


def _penstock(
    *arguments: str, env: Mapping[str, str] | None = None, out: int = subprocess.PIPE, before: str = "pass"
) -> subprocess.CompletedProcess[bytes]:
    """`before`: Python that is run in the process first."""
    program = f"import sys; from app.cli import main; {before}; sys.argv[1:] = {list(arguments)!r}; main()"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=_REPOSITORY / "examples" / "broker",
        env={**os.environ, **(env or {})},
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
        timeout=_LIMIT_S,
    )


def test_internal_error_has_its_own_code_and_its_traceback_is_in_a_file(tmp_path: Path) -> None:
    broken = "import app.cli.explain as module; module.explain_event = lambda *_: {}['missing']"
    done = _penstock(*_EXPLAIN, before=broken, env={"TMPDIR": str(tmp_path)})
    (file,) = tmp_path.glob("penstock-error-*.txt")
    assert done.returncode == 70
    assert done.stderr.decode() == (
        "`penstock explain payment` failed because of an internal error: KeyError: 'missing'. "
        f"This is a bug: please report it with {file}, which has the traceback.\n"
    )
    report = file.read_text()
    assert re.match(r"penstock explain payment, penstock \d\S*, Python \d", report)
    assert report.rstrip().endswith("KeyError: 'missing'")
    assert "--event" not in report.splitlines()[0]
    assert file.stat().st_mode & 0o777 == 0o600


def test_report_that_cannot_be_kept_is_printed(tmp_path: Path) -> None:
    broken = (
        "import app.cli.explain as module; module.explain_event = lambda *_: {}['missing'];"
        f"import tempfile; tempfile.tempdir = {str(tmp_path / 'none')!r}"
    )
    done = _penstock(*_EXPLAIN, before=broken)
    assert done.returncode == 70
    assert done.stderr.decode().rstrip().endswith("please report it with the traceback above.")


@pytest.mark.parametrize(
    "arguments",
    [_EXPLAIN, ("config", "show"), ("config", "show", "-o", "json"), ("--help",), ("validate", ".", "-o", "yaml")],
)
def test_full_disk_under_the_output(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = _penstock(*arguments, out=full.fileno())
    (sentence,) = done.stderr.decode().splitlines()
    assert done.returncode == 74
    assert sentence.startswith("`penstock")
    assert sentence.endswith("failed: the disk is full. Free some space, and try again.")


def test_full_disk_under_output_and_errors() -> None:
    """Nothing can be said, and the code still tells it."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", "config", "show"],
            cwd=_REPOSITORY,
            stdout=full,
            stderr=full,
            check=False,
            timeout=_LIMIT_S,
        )
    assert done.returncode == 74


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_explain_on_a_terminal_without_its_marks(encoding: str) -> None:
    done = _penstock(*_EXPLAIN, env={"PYTHONIOENCODING": encoding})
    assert done.stderr == b""
    assert done.returncode == 0
    assert b"+ exact: type = 'order.created'" in done.stdout


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "utf-8"}, {"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}])
def test_explain_on_a_terminal_with_its_marks(environment: dict[str, str]) -> None:
    done = _penstock(*_EXPLAIN, env=environment)
    assert done.returncode == 0
    assert "✓ exact: type = 'order.created'" in done.stdout.decode()


def test_text_that_the_terminal_cannot_show_is_escaped() -> None:
    done = _penstock("explain", "grün✓", *_EXPLAIN[2:], env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 2, "there is no such trigger: not 1, which is `does not match`"
    assert b"There is no trigger gr\\xfcn\\u2713" in done.stderr


def test_file_on_a_full_disk_is_named(tmp_path: Path) -> None:
    """The file that is written before it replaces the one of tokens."""
    (tmp_path / ".tokens.yaml.new").symlink_to("/dev/full")
    done = _penstock("token", "shop", "--channel", "default/orders", "--file", str(tmp_path / "tokens.yaml"))
    assert done.returncode == 2
    assert f"{tmp_path}/tokens.yaml cannot be written (the disk is full)." in done.stderr.decode()


def test_ctrl_c_while_a_command_is_imported() -> None:
    program = """
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from penstock._entry import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=_REPOSITORY, capture_output=True, check=False, timeout=_LIMIT_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
