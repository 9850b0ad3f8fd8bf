"""Tables for people."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from app.cli.output.format import Listing, View, print_table, table_of
from app.cli.output.time import age


def test_cells_have_no_terminal_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"reason": "REASON"}, [{"reason": "no\x1b[2Jsuch thing"}, {"reason": "two\nlines, für alle"}], "")
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert r"no\x1b[2Jsuch thing" in output
    assert "lines, für alle" in output


def test_row_is_one_line_on_a_narrow_terminal_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    rows: list[dict[str, object]] = [
        {"name": "default/quickstart", "ready": "True", "message": ""},
        {"name": "default/x", "ready": None, "message": "no worker serves this subscription; start a worker"},
    ]
    print_table({"name": "NAME", "ready": "READY", "message": "MESSAGE"}, rows, "")
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "NAME                READY  MESSAGE",
        "default/quickstart  True",
        "default/x                  no worker serves this subscription; start a worker",
    ]


def test_wide_characters_keep_the_columns_in_line() -> None:
    console = Console(width=200, soft_wrap=True)
    rows: list[dict[str, object]] = [{"a": "\u6771\u4eac", "b": "x"}, {"a": "abcde", "b": "y"}]
    with console.capture() as output:
        console.print(table_of({"a": "A", "b": "B"}, rows, ""))
    assert output.get().splitlines() == ["A      B", "\u6771\u4eac   x", "abcde  y"]


def test_names_have_their_kind_in_front(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(columns={}, name="name", empty="", kind="kind")
    kinds = ("Trigger", "KafkaChannel", "")
    listing.show([{"kind": kind, "name": "ns/a"} for kind in kinds], View.NAME)
    assert capsys.readouterr().out.split() == ["trigger/ns/a", "channel/ns/a", "ns/a"]


def test_times_are_ages_in_tables_only(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(columns={"oldest": "OLDEST"}, name="oldest", empty="", times=frozenset({"oldest"}))
    listing.show([{"oldest": "2026-01-01T00:00:00.000Z"}], View.JSON)
    assert "2026-01-01T00:00:00.000Z" in capsys.readouterr().out
    listing.show([{"oldest": "2026-01-01T00:00:00.000Z"}, {"oldest": ""}, {"oldest": None}], View.TABLE)
    assert "2026-01-01" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("now_s", "text"),
    [(1000.2, "0s"), (1007.6, "8s"), (1200.0, "3m20s"), (996.0, "in 4s"), (940.0, "in 1m"), (1000 + 7200.0, "2h")],
)
def test_time_is_an_age_or_a_time_to_come(now_s: float, text: str) -> None:
    assert age("1970-01-01T00:16:40.000Z", now_s) == text


def test_column_that_wide_names_too_has_its_place_there() -> None:
    listing = Listing(columns={"a": "A", "m": "MESSAGE"}, wide={"b": "B", "m": "MESSAGE"}, name="a", empty="")
    assert list(listing.columns_of(View.TABLE)) == ["a", "m"]
    assert list(listing.columns_of(View.WIDE)) == ["a", "b", "m"]
