"""The rounds of a benchmark: implementations take turns, and failures are reported."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks.figures import NOT_OFFERED, Figure, Row, as_json
from benchmarks.implementation import OWN, Assignment, Implementation, NotOffered, Tls, Wanted
from benchmarks.implementations.penstock.resources import documents
from benchmarks.lab import Interval, Lab, Sample
from benchmarks.measures import analytics, filters
from benchmarks.measures.measure import Measure, Values
from benchmarks.rounds import run

FIRST, SECOND = Row("first", "us", 2), Row("second", "MB")


def _folder(root: Path, name: str) -> Implementation:
    folder = root / name
    folder.mkdir()
    for command_name in ("receiver", "dispatcher"):
        (folder / command_name).touch(mode=0o755)
    return Implementation(folder)


def _measure(rounds: Callable[[str, int], Values], calls: list[str] | None = None) -> Measure:
    @contextmanager
    def scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
        number = 0

        def once() -> Values:
            nonlocal number
            number += 1
            if calls is not None:
                calls.append(implementation.name)
            return rounds(implementation.name, number)

        yield once

    return Measure("made up", "", (FIRST, SECOND), scene)


def test_one_round_is_enough_for_some_unless_more_are_asked_for(tmp_path: Path) -> None:
    measure = replace(_measure(lambda name, number: {FIRST: number, SECOND: 1}), once=True)
    for asked, rounds in ((False, (1,)), (True, (1, 2, 3))):
        figures = run([measure], Lab("", tmp_path), [_folder(tmp_path, str(asked))], 3, print, asked)
        assert figures[0][0] == Figure(FIRST, rounds)


def test_figures_say_how_busy_the_machine_was_before_their_measure(tmp_path: Path) -> None:
    said: list[str] = []
    measure = _measure(lambda name, number: {FIRST: 1, SECOND: 1})

    (figures,) = run([measure], Lab("", tmp_path), [_folder(tmp_path, "ours")], 2, said.append, busy=lambda: 0.25)

    assert [row["busy_cores"] for row in as_json(figures)] == [0.25, 0.25]
    assert said == ["measuring made up:  (0.2 cores are busy)"]


def test_analytics_and_filters_are_penstocks_own(tmp_path: Path) -> None:
    """Another implementation's rows are there, and empty."""
    measures = (*analytics.MEASURES, *filters.MEASURES)
    (figures,) = run(measures, Lab("", tmp_path), [_folder(tmp_path, "other")], 3, print)
    assert [figure.row for figure in figures] == [row for measure in measures for row in measure.rows]
    assert {(figure.values, figure.error) for figure in figures} == {((), "not offered")}


def test_implementations_take_turns_and_change_who_is_first(tmp_path: Path) -> None:
    calls: list[str] = []
    measure = _measure(lambda name, number: {FIRST: number, SECOND: len(name)}, calls)
    both = [_folder(tmp_path, "a"), _folder(tmp_path, "bb")]
    figures = run([measure], Lab("", tmp_path), both, 3, print)
    assert calls == ["a", "bb", "bb", "a", "a", "bb"]
    assert figures == [
        [Figure(FIRST, (1, 2, 3)), Figure(SECOND, (1, 1, 1))],
        [Figure(FIRST, (1, 2, 3)), Figure(SECOND, (2, 2, 2))],
    ]


def test_round_that_fails_ends_its_measure_and_no_other(tmp_path: Path) -> None:
    def failing(name: str, number: int) -> Values:
        if name == "a" and number == 2:
            raise RuntimeError("it broke\nwith details")
        if name == "b":
            raise NotOffered("this")
        return {FIRST: 1.0, SECOND: 1.0}

    def good(name: str, number: int) -> Values:
        return {FIRST: 2.0, SECOND: 2.0}

    said: list[str] = []
    both = [_folder(tmp_path, "a"), _folder(tmp_path, "b")]
    ours, theirs = run([_measure(failing), _measure(good)], Lab("", tmp_path), both, 3, said.append)
    assert ours == [
        Figure(FIRST, (1.0,), "it broke"),
        Figure(SECOND, (1.0,), "it broke"),
        Figure(FIRST, (2.0, 2.0, 2.0)),
        Figure(SECOND, (2.0, 2.0, 2.0)),
    ]
    assert [their.error for their in theirs] == ["not offered", "not offered", None, None]
    assert [text for text in said if "failed" in text] == ["made up of a failed: it broke\nwith details"]


def test_scene_that_cannot_be_set_up_or_torn_down_leaves_its_rows(tmp_path: Path) -> None:
    @contextmanager
    def broken(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
        if implementation.name:
            raise OSError("no room")
        yield lambda: {}

    @contextmanager
    def untidy(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
        yield lambda: {FIRST: 1.0, SECOND: 1.0}
        raise OSError("still in use")

    measures = [Measure("broken", "", (FIRST,), broken), Measure("untidy", "", (FIRST, SECOND), untidy)]
    (ours,) = run(measures, Lab("", tmp_path), [_folder(tmp_path, "a")], 2, print)
    assert ours == [Figure(FIRST, (), "no room"), Figure(FIRST, (1.0, 1.0)), Figure(SECOND, (1.0, 1.0))]


def test_value_that_a_round_leaves_out_is_a_failure(tmp_path: Path) -> None:
    (ours,) = run([_measure(lambda *_: {FIRST: 1.0})], Lab("", tmp_path), [_folder(tmp_path, "a")], 1, print)
    assert all(our.error for our in ours)


@pytest.mark.parametrize(("error", "code"), [("", 0), ("Kafka went away", 1)])
def test_row_that_failed_is_in_the_file_and_in_the_exit_code(tmp_path: Path, error: str, code: int) -> None:
    figures = [Figure(FIRST, (9.0,)), Figure(SECOND, (), error)]
    console, file = Console(width=150, record=True), tmp_path / "new" / "latest.json"
    assert command.conclude(file, ["ours"], [figures], print, console) == code
    assert [load["name"] for load in json.loads(file.read_text())] == ["first", "second"]
    assert ("second was not measured: Kafka went away" in console.export_text()) == bool(error)


def test_what_another_implementation_does_not_offer_is_not_listed(tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    ours = [Figure(FIRST, (1.0,)), Figure(SECOND, (1.0,))]
    theirs = [Figure(FIRST, (), NOT_OFFERED), Figure(SECOND, (), "it crashed")]

    code = command.conclude(tmp_path / "out.json", ["ours", "bare"], [ours, theirs], print, console)

    output = console.export_text()
    assert code == 0
    assert "bare: second was not measured: it crashed" in output
    assert NOT_OFFERED not in output


def test_every_row_of_the_whole_table_has_a_name_of_its_own() -> None:
    names = [row.name for measure in command.MEASURES for row in measure.rows]
    assert len(names) == len(set(names))
    assert len({measure.name for measure in command.MEASURES}) == len(command.MEASURES)


def test_folder_without_both_commands_is_not_an_implementation(tmp_path: Path) -> None:
    (tmp_path / "receiver").touch(mode=0o755)
    with pytest.raises(ValueError, match="no executable 'dispatcher'"):
        Implementation(tmp_path)
    assert Implementation(OWN).name == "penstock"


def test_environment_of_an_implementation(tmp_path: Path) -> None:
    spec = Wanted("s", "http://127.0.0.1:1/sub/s", "key-ordered", 7, 2, 0.05, "http://127.0.0.1:2/")
    assignment = Assignment("127.0.0.1:9", "bench.c1", 3, "/channels/bench/c1", tmp_path, (spec,)).environment()
    subscriptions = json.loads(Path(assignment["BENCH_SUBSCRIPTIONS"]).read_text())
    assert (assignment["BENCH_KAFKA"], assignment["BENCH_TOPIC"], assignment["BENCH_PARTITIONS"]) == (
        "127.0.0.1:9",
        "bench.c1",
        "3",
    )
    assert not [name for name in assignment if "TLS" in name]
    channel, subscription = documents("bench.c1", 3, subscriptions)
    assert channel["metadata"] == {"namespace": "bench", "name": "c1"}
    assert channel["spec"]["numPartitions"] == 3
    assert subscription["spec"]["subscriber"] == {"uri": "http://127.0.0.1:1/sub/s"}
    assert subscription["spec"]["delivery"] == {
        "retry": 2,
        "backoffPolicy": "linear",
        "backoffDelay": "PT0.05S",
        "deadLetterSink": {"uri": "http://127.0.0.1:2/"},
    }
    assert set(subscription["metadata"]["annotations"].values()) == {"key-ordered", "7"}
    tls = Tls(Path("tls.crt"), Path("tls.key"), Path("ca.crt"))
    secured = Assignment("127.0.0.1:9", "bench.c1", 3, "/channels/bench/c1", tmp_path, tls=tls).environment()
    assert (secured["BENCH_TLS_CERT"], secured["BENCH_TLS_KEY"]) == ("tls.crt", "tls.key")


def test_interval_is_the_difference_of_two_samples() -> None:
    interval = Interval(Sample(1_000, 2.0, 10.0), Sample(6_000, 2.2, 10.5))
    assert interval.events == 5_000
    assert interval.cpu_us == pytest.approx(40)
    assert interval.per_s == pytest.approx(10_000)
