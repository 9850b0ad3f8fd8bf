"""`penstock token --file`: the file is valid after it, or as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app.cli import cli
from app.worker.secrets.token_file import read_names, read_tokens
from knative.errors import UsageError
from web.console.limits import Limits
from web.console.sessions import Sessions


def token(file: Path, name: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["token", name, "--channel", "default/orders", "--file", str(file)])
    return done.exit_code, str(done.exception or "")


@pytest.mark.parametrize("before", [None, "", "[]", "[]\n", "# of the shop\n"], ids=repr)
def test_entry_is_added_to_a_file_without_one(before: str | None, tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    if before is not None:
        file.write_text(before)
    assert [token(file, name)[0] for name in ("shop", "till")] == [0, 0]
    read_tokens(file)
    assert [entry["name"] for entry in yaml.safe_load(file.read_text())] == ["shop", "till"]
    assert file.read_text().startswith("# of the shop" if before == "# of the shop\n" else "- name: shop")


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (b"- {name: \xff}", "is not UTF-8"),
        (b"[{name: shop, sha256: %b, channels: [a/b]}]" % (b"a" * 64), "do not begin with `- ` in the first column"),
        (b"a: b\n", "tokens.yaml"),
        (b"- name: 2024-02-30\n", "not valid; put texts in quotes"),
    ],
)
def test_file_that_cannot_have_it_stays_as_it_is(before: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_bytes(before)
    code, problem = token(file, "till")
    assert code != 0
    assert says in problem
    assert file.read_bytes() == before


def test_token_of_the_console_opens_the_console_and_no_channel(tmp_path: Path) -> None:
    file = tmp_path / "people.yaml"
    done = CliRunner().invoke(cli, ["token", "anna", "--console", "--file", str(file)])
    assert done.exit_code == 0, done.output
    sessions = Sessions(Limits())
    sessions.names = read_names(file)

    session = sessions.find(sessions.log_in(done.stdout, 0), 1)

    assert session is not None
    assert session.name == "anna"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["anna"], "would not be allowed to do anything"),
        (["anna", "--console", "--channel", "default/orders"], "for the console or for senders"),
    ],
)
def test_token_is_for_one_of_both(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["token", *arguments])
    assert done.exit_code != 0
    assert says in str(done.exception)


def test_file_of_senders_is_none_of_the_console(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    token(file, "shop")
    with pytest.raises(UsageError, match="token 1: channels is not a known key; use name, sha256"):
        read_names(file)
