"""The directory source on real files: what editors do to files must never stop anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.source.directory import Directory
from knative.errors import UsageError
from tests.unit.controller.source.resource_files import TEXT, partitions_of, write


def test_yaml_yml_and_json_in_folders_but_nothing_hidden(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one", "two")
    write(tmp_path, "deep/er/b.YML", "three")
    (tmp_path / "c.json").write_text(
        '{"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "metadata": {"name": "four"}}'
    )
    write(tmp_path, ".hidden.yaml", "five")
    write(tmp_path, "..data/d.yaml", "six")
    write(tmp_path, "e.yaml.swp", "seven")
    snapshot = Directory(tmp_path).scan()
    assert sorted(partitions_of(snapshot)) == ["four", "one", "three", "two"]
    assert snapshot.problems == ()


def test_change_is_seen_at_once_and_what_is_missing_counts_at_the_second_scan(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one", "two")
    directory.scan()
    assert directory.scan().complete
    write(tmp_path, "a.yaml", "one", partitions=3)
    changed = directory.scan()
    assert (partitions_of(changed), changed.complete) == ({"one": 3}, False)
    assert directory.scan().complete
    (tmp_path / "a.yaml").unlink()
    assert [directory.scan().complete for _ in range(2)] == [False, True]
    assert partitions_of(directory.scan()) == {}


def test_scan_in_the_middle_of_saving_does_not_count(tmp_path: Path) -> None:
    """Editors truncate, or rename."""
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    for _ in range(2):
        directory.scan()
    (tmp_path / "a.yaml").write_text("")
    assert not directory.scan().complete
    write(tmp_path, "a.yaml", "one", partitions=2)
    saved = directory.scan()
    assert (partitions_of(saved), saved.complete) == ({"one": 2}, True)
    (tmp_path / "a.yaml").rename(tmp_path / "a.yaml~")
    assert not directory.scan().complete
    write(tmp_path, "a.yaml", "one", partitions=3)
    saved = directory.scan()
    assert (partitions_of(saved), saved.complete) == ({"one": 3}, True)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("kind: [", 1, ""),
        (TEXT.format(name="one", partitions=0), 6, "spec.numPartitions"),
        (TEXT.format(name="one", partitions=1) + "  replication: 2\n", 7, "spec.replication"),
        (TEXT.format(name="one", partitions=1) + "---\n" + TEXT.format(name="one", partitions=2), 8, "metadata.name"),
    ],
)
def test_bad_file_keeps_its_last_good_state_as_long_as_it_is_bad(
    tmp_path: Path, text: str, line: int, field: str
) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one", "two")
    write(tmp_path, "b.yaml", "three")
    directory.scan()
    (tmp_path / "a.yaml").write_text(text)
    for _ in range(4):
        snapshot = directory.scan()
        assert partitions_of(snapshot) == {"one": 1, "two": 1, "three": 1}
    (problem,) = snapshot.problems
    assert (problem.file, problem.line, problem.field, problem.ignored) == ("a.yaml", line, field, False)
    assert problem.what
    assert problem.hint
    write(tmp_path, "a.yaml", "one", "two", partitions=2)
    fixed = directory.scan()
    assert (partitions_of(fixed), fixed.problems) == ({"one": 2, "two": 2, "three": 1}, ())


def test_bad_document_takes_its_file_along_not_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    (tmp_path / "b.yaml").write_text(TEXT.format(name="two", partitions=1) + "---\nkind: KafkaChannel\n")
    assert partitions_of(Directory(tmp_path).scan()) == {"one": 1}


def test_unsupported_kinds_are_reported_and_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\n" + TEXT.format(name="one", partitions=1)
    )
    snapshot = Directory(tmp_path).scan()
    assert partitions_of(snapshot) == {"one": 1}
    (problem,) = snapshot.problems
    assert (problem.line, problem.ignored, problem.object) == (2, True, "Secret default/x")
    assert not problem.suspected_typo


def test_suspected_typo_differs_from_a_foreign_kind(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TEXT.format(name="one", partitions=1).replace("KafkaChannel", "KafkaChanel"))
    write(tmp_path, "b.yaml", "two")
    write(tmp_path, "c.yaml", "two")
    problems = Directory(tmp_path).scan().problems
    assert [(problem.file, problem.ignored, problem.suspected_typo) for problem in problems] == [
        ("a.yaml", True, True),
        ("c.yaml", True, True),
    ]
    assert "did you mean apiVersion: messaging.knative.dev/v1beta1 and kind: KafkaChannel?" in problems[0].hint


def test_of_two_files_with_one_name_the_first_counts_and_keeps_it(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "m.yaml", "one", partitions=1)
    directory.scan()
    write(tmp_path, "a.yaml", "one", partitions=5)
    snapshot = directory.scan()
    assert partitions_of(snapshot) == {"one": 1}
    assert [(problem.file, problem.ignored) for problem in snapshot.problems] == [("a.yaml", True)]
    (tmp_path / "m.yaml").unlink()
    assert partitions_of(directory.scan()) == {"one": 5}


def test_complete_only_when_surely_everything_was_seen(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    assert [directory.scan().complete for _ in range(2)] == [False, True], "a first look may see half of a change"
    (tmp_path / "b.yaml").write_text("kind: [")
    assert not directory.scan().complete, "nobody knows what stands in it"
    write(tmp_path, "b.yaml", "two")
    assert directory.scan().complete
    (tmp_path / "b.yaml").write_text("kind: [")
    assert not directory.scan().complete
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n")
    assert [directory.scan().complete for _ in range(2)] == [False, True], "it is not for this directory"
    (tmp_path / "b.yaml").write_text(TEXT.format(name="two", partitions=1).replace("KafkaChannel", "KafkaChanel"))
    assert [directory.scan().complete for _ in range(2)] == [False, False], "that is probably a channel"
    write(tmp_path, "b.yaml", "one")
    assert [directory.scan().complete for _ in range(2)] == [False, False], "it may have had another name"
    write(tmp_path, "b.yaml")
    assert directory.scan().complete, "an empty file has no objects"


def test_directory_that_goes_away_is_a_problem_and_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    write(root, "a.yaml", "one")
    directory = Directory(root)
    directory.scan()
    root.rename(tmp_path / "elsewhere")
    for _ in range(3):
        snapshot = directory.scan()
    assert partitions_of(snapshot) == {"one": 1}
    assert not snapshot.complete
    assert "cannot be read" in snapshot.problems[0].what


def test_missing_directory_is_a_sentence_at_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist\. Create it"):
        Directory(tmp_path / "nowhere").check()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file' is a file, not a directory\. Name the directory"):
        Directory(tmp_path / "file").check()


def test_old_file_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    old = 1_000_000_000
    os.utime(tmp_path / "a.yaml", (old, old))
    directory = Directory(tmp_path)
    first = directory.scan()
    stat = (tmp_path / "a.yaml").stat()
    with (tmp_path / "a.yaml").open("r+") as file:
        file.write("x")
    os.utime(tmp_path / "a.yaml", (old, old))
    assert (tmp_path / "a.yaml").stat().st_size == stat.st_size
    assert directory.scan().objects == first.objects
