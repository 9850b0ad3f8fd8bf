"""Recreated topics: how they are recognized, and what remains of Spark's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.traffic.checkpoint import begun, committed, forget, offsets_of
from analytics.traffic.topic_identity import TopicNow, changed, judge

READ = {"t": {0: 10, 1: 20}}
WHOLE = {0: (0, 10), 1: (0, 25)}


@pytest.mark.parametrize(
    ("ids", "planned", "now", "replaced", "said"),
    [
        ({"t": "a"}, READ, TopicNow("a", WHOLE), False, ""),
        ({"t": "a"}, READ, TopicNow("b", {0: (0, 99), 1: (0, 99)}), True, "created again"),
        ({}, READ, TopicNow("b", WHOLE), False, ""),
        ({}, READ, TopicNow("b", {0: (0, 9), 1: (0, 25)}), True, "so it was created again"),
        ({}, READ, TopicNow("b", {0: (0, 10)}), True, "so it was created again"),
        ({}, {"t": {0: 10, 1: 26}}, TopicNow("b", WHOLE), True, "so it was created again"),
        ({"t": "a"}, READ, TopicNow("", {0: (0, 1), 1: (0, 25)}), True, "so it was created again"),
        ({"t": "a"}, READ, TopicNow("a", {0: (0, 9), 1: (0, 25)}), False, "Kafka has lost records"),
        ({"t": "a"}, READ, TopicNow("a", {0: (12, 15), 1: (23, 25)}), False, "Up to 5 records"),
        ({"t": "a"}, READ, TopicNow("a"), False, ""),
        ({}, {}, TopicNow("b", WHOLE), False, ""),
    ],
)
def test_what_is_judged(
    ids: dict[str, str], planned: dict[str, dict[int, int]], now: TopicNow, replaced: bool, said: str
) -> None:
    found = judge(ids, READ if planned else {}, planned, {"t": now})

    assert found.replaced == (("t",) if replaced else ())
    assert (len(found.notes) == 1 and said in found.notes[0]) if said else not found.notes


def test_only_two_known_ids_show_a_change() -> None:
    now = {"a": TopicNow("2"), "b": TopicNow("1"), "c": TopicNow(""), "d": TopicNow("1")}

    assert changed({"a": "1", "b": "1", "c": "1", "e": "1"}, now) == ["a"]


def _checkpoint(folder: Path, commits: int) -> None:
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text("{}")
    for number in range(3):
        places = json.dumps({"a": {"0": 10 * number}, "b": {"0": 5 * number}})
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{places}')
        (folder / "offsets" / f".{number}.crc").write_text("crc")
        if number < commits:
            (folder / "commits" / str(number)).write_text("v1\n{}")


def test_a_topic_is_forgotten_and_what_was_begun_is_taken_back(tmp_path: Path) -> None:
    _checkpoint(tmp_path, commits=2)
    assert (committed(tmp_path), begun(tmp_path)) == (1, 2)

    forget(tmp_path, ["a"])

    assert (committed(tmp_path), begun(tmp_path)) == (1, 1)
    assert offsets_of(tmp_path, 1) == {"b": {0: 5}}
    assert offsets_of(tmp_path, 0) == {"a": {0: 0}, "b": {0: 0}}
    assert {one.name for one in (tmp_path / "offsets").iterdir()} == {"0", ".0.crc", "1"}
    assert (tmp_path / "offsets" / "1").read_text().startswith('v1\n{"batchWatermarkMs":0}\n')


def test_before_the_first_commit_all_of_it_goes(tmp_path: Path) -> None:
    _checkpoint(tmp_path, commits=0)
    (tmp_path / "penstock-id").write_text("id")

    forget(tmp_path, ["a"])

    assert {one.name for one in tmp_path.iterdir()} == {"penstock-id"}


def test_what_cannot_be_read_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for number, text in enumerate(("", "v1\n{}\nnonsense", 'v1\n{}\n{"a":3}', "v1\n{}\n[]")):
        (tmp_path / "offsets" / str(number)).write_text(text)
        assert offsets_of(tmp_path, number) == {}
    assert offsets_of(tmp_path, None) == {}
