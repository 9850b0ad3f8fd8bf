"""`penstock traffic`: windows as rows for people, and wrong questions."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import web.pages.traffic  # noqa: F401 - imported late by the command; Faust under it starts a process meanwhile
from analytics.traffic.windows import Window as TableWindow
from app.cli import cli, traffic
from app.cli.output.format import print_yaml
from app.cli.traffic import history_rows, rows
from app.operations.contract_snapshot import Contract
from knative.contract.records import Channel
from knative.errors import UsageError
from knative.traffic.counts import Counts
from tables.traffic_windows.view import Line
from tables.traffic_windows.windows import Window
from tests.support.traffic_tables import write_tables

BOTH = (
    Channel("c", 1, "ns", "both", "t", "t.dlq", 1),
    Channel("b", 1, "ns", "both", "u", "u.dlq", 1, kind="Broker"),
)


def lines(now: int) -> list[Line]:
    start = now - now % 10
    settled = {
        start: Window(counts=Counts(delivered=2, retried=1, bytes=20), latency={50: 2}),
        start - 10: Window(counts=Counts(delivered=8, dead=1, filtered=2, ignored=3, bytes=80), latency={120: 8}),
    }
    return [Line("ns", "ch", "", {start: Window(counts=Counts(60))}), Line("ns", "ch", "sub", settled)]


def test_sum_of_the_windows() -> None:
    channel, sub = rows(lines(int(time.time())), 10, 6, each=False)

    assert (channel["kind"], channel["name"], channel["accepted"]) == ("KafkaChannel", "ns/ch", 60)
    assert 1.0 <= float(str(channel["per_s"])) <= 1.2
    assert "delivered" not in channel
    assert (sub["name"], sub["delivered"], sub["retried"], sub["dead_lettered"]) == ("ns/sub", 10, 1, 1)
    assert (sub["filtered"], sub["ignored"], sub["bytes"]) == (2, 3, 100)
    assert (sub["p50"], sub["p99"]) == ("8.83 s", "8.83 s")


def test_range_is_read_from_the_tables(tmp_path: Path) -> None:
    """In minutes, or in hours if it is long; what came in counts once, and each subscription by itself."""
    now = int(time.time()) // 3600 * 3600
    write_tables(
        tmp_path,
        [
            TableWindow(now - 7200, 60, "stored", "ns", "ch", "", "a", "/1", Counts(5, 50)),
            TableWindow(now - 7140, 60, "stored", "ns", "ch", "", "b", "/2", Counts(1, 10)),
            TableWindow(now - 7200, 60, "accepted", "ns", "ch", "", "a", "/1", Counts(5, 50)),
            TableWindow(now - 7200, 60, "settled", "ns", "ch", "sub", "a", "/1", Counts(4, 40, 4), latency={50: 4}),
            TableWindow(now - 7200, 60, "settled", "other", "ch", "sub", "a", "/1", Counts(9, 90, 9)),
        ],
    )

    def read(since: str, until: str = "", channel: Channel | None = None) -> list[tuple[object, ...]]:
        history = history_rows(str(tmp_path), since, until, channel, "ns")
        return [(row["name"], row.get("accepted"), row.get("delivered"), row["per_s"]) for row in history]

    assert read("4h") == [("ns/ch", 6, None, "0.1"), ("ns/sub", None, 4, "0.0")]
    assert read("4h", "1h", Channel("c", 1, "ns", "elsewhere", "t", "t.dlq", 1)) == []
    assert read("30d") == [("ns/ch", 6, None, "0.0"), ("ns/sub", None, 4, "0.0")]
    assert read("1s") == []
    with pytest.raises(UsageError, match="not before --until"):
        read("1h", "2h")


@pytest.mark.parametrize(
    ("size", "since_s", "until_s", "says"),
    [(86_400, 7200, 9000, True), (3600, 900, 1800, True), (3600, 0, 3600, False), (3600, 900, 30_000, False)],
)
def test_range_that_is_in_longer_windows_says_so(
    size: int, since_s: int, until_s: int, says: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = int(time.time()) // 86_400 * 86_400 - 90 * 86_400
    write_tables(tmp_path, [TableWindow(day, size, "stored", "ns", "ch", counts=Counts(size))])
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(day + second)) for second in (since_s, until_s))

    [row] = history_rows(str(tmp_path), since, until, None, "")

    assert (row["accepted"], row["per_s"]) == (size, "1.0")
    assert str(row["window"]) == time.strftime("%Y-%m-%d %H:%M", time.localtime(day))
    assert ("have longer windows for this time" in capsys.readouterr().err) is says


def test_rate_is_of_the_time_that_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 1_790_000_000 // 3600 * 3600
    write_tables(tmp_path, [TableWindow(hour, 60, "stored", "ns", "ch", counts=Counts(1200))])
    monkeypatch.setattr(time, "time", lambda: hour + 600.0)

    for since in ("1h", "7h"):  # in minutes, in hours
        [row] = history_rows(str(tmp_path), since, "", None, "")
        assert row["per_s"] == ("20.0" if since == "1h" else "2.0")


def test_each_window_the_latest_first() -> None:
    windows = rows(lines(int(time.time())), 10, 6, each=True)

    assert [(row["name"], row.get("delivered")) for row in windows] == [("ns/ch", None), ("ns/sub", 2), ("ns/sub", 8)]
    assert [row["p50"] for row in windows if "p50" in row] == ["11.2 ms", "8.83 s"]


def test_nothing_delivered_has_no_latency() -> None:
    (row,) = rows([Line("ns", "ch", "sub", {int(time.time()): Window(counts=Counts(dead=1))})], 10, 1, each=False)

    assert (row["p50"], row["delivered"], row["dead_lettered"]) == ("-", 0, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--last", "91"], "Use at most 90"),
        (["--last", "0"], "--last"),
        (["--window", "5m"], "10s"),
        (["--since", "7d", "--last", "6"], "Remove --last"),
        (["--since", "7d", "--window", "1m"], "Remove --window"),
        (["--since", "7d", "--every", "2"], "Remove --every"),
        (["--since", "7d", "-w"], "Remove --watch"),
        (["--channel", "orders"], "NAMESPACE/NAME"),
        (["--channel", "/orders"], "NAMESPACE/NAME"),
        (["--channel", "Broker/ns/"], "NAMESPACE/NAME"),
        (["--channel", "a/b/c/d"], "NAMESPACE/NAME"),
        (["--channel", "ns/both"], "A channel and a broker have the name ns/both"),
        (["--channel", "ns/none"], "There is no channel or broker ns/none; known: ns/both"),
    ],
)
def test_wrong_question_is_a_usage_error(arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "read_contract", lambda *_: Contract(BOTH, (), ()))
    done = CliRunner().invoke(cli, ["traffic", *arguments])

    assert done.exit_code != 0
    assert says in (done.output + str(done.exception))


@pytest.mark.parametrize(
    ("wish", "uid"),
    [("KafkaChannel/ns/both", "c"), ("channel/ns/both", "c"), ("broker/ns/both", "b"), ("ns/broker:both", "b")],
)
def test_channel_is_chosen_as_in_other_commands(wish: str, uid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Channel] = []

    def read_lines(*arguments: Any) -> list[Line]:
        asked.append(arguments[4])
        return []

    monkeypatch.setattr(traffic, "read_contract", lambda *_: Contract(BOTH, (), ()))
    monkeypatch.setattr(traffic, "read_lines", read_lines)
    assert CliRunner().invoke(cli, ["traffic", "--channel", wish]).exit_code == 0
    assert [channel.uid for channel in asked] == [uid]


@pytest.mark.parametrize("arguments", [[], ["--window", "1m"], ["--each"]])
def test_yaml_is_the_same_page_as_json(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "read_lines", lambda *_: lines(int(time.time())))
    done = CliRunner().invoke(cli, ["traffic", *arguments, "-o", "yaml"])
    page = CliRunner().invoke(cli, ["traffic", *arguments, "-o", "json"])

    assert (done.exit_code, page.exit_code) == (0, 0), done.exception
    document, expected = yaml.safe_load(done.output), json.loads(page.output)
    assert document.keys() == expected.keys()
    assert document["window"] == expected["window"]
    assert document["channels"][0]["subscriptions"][0]["name"] == "sub"


def test_yaml_takes_what_json_takes(capsys: pytest.CaptureFixture[str]) -> None:
    class Size(StrEnum):
        SHORT = "10s"

    print_yaml({"size": Size.SHORT, "pair": (1, None), "rows": [{"on": True}]})

    assert yaml.safe_load(capsys.readouterr().out) == {"size": "10s", "pair": [1, None], "rows": [{"on": True}]}
