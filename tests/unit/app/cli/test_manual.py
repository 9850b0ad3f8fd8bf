"""The manual pages are those of the commands as they are."""

from __future__ import annotations

from app.cli.manual import FOLDER, pages
from tests.unit.app.cli.test_help import _commands


def test_each_command_has_a_page_that_is_current() -> None:
    expected = pages()
    names = {"-".join(["penstock", *command]) for command in _commands() if command != ["receive"]}
    assert {path.stem for path in expected} == {path.stem for path in FOLDER.iterdir()} == names
    stale = [path.name for path, text in expected.items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make man`"
