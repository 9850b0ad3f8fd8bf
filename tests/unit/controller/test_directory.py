"""The directory source on real files: what editors do to files must never delete anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller import directory as directory_module
from controller.directory import Directory, Snapshot
from knative.errors import UsageError
from knative.resources import KafkaChannel

TEXT = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata:
  name: {name}
spec:
  numPartitions: {partitions}
"""


def write(root: Path, file: str, *names: str, partitions: object = 1) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(TEXT.format(name=name, partitions=partitions) for name in names), "utf-8")


def found(snapshot: Snapshot) -> dict[str, int]:
    return {
        written.resource.name: written.resource.partitions
        for written in snapshot.objects
        if isinstance(written.resource, KafkaChannel)
    }


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
    assert sorted(found(snapshot)) == ["four", "one", "three", "two"]
    assert snapshot.problems == ()


def test_a_change_is_seen_at_once_a_removal_at_the_second_look(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one", "two")
    directory.scan()
    write(tmp_path, "a.yaml", "one", partitions=3)
    assert found(directory.scan()) == {"one": 3, "two": 1}
    assert found(directory.scan()) == {"one": 3}
    (tmp_path / "a.yaml").unlink()
    assert found(directory.scan()) == {"one": 3}
    assert found(directory.scan()) == {}


def test_saving_by_truncating_or_renaming_removes_nothing(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    directory.scan()
    (tmp_path / "a.yaml").write_text("")
    assert found(directory.scan()) == {"one": 1}
    write(tmp_path, "a.yaml", "one", partitions=2)
    assert found(directory.scan()) == {"one": 2}
    (tmp_path / "a.yaml").rename(tmp_path / "a.yaml~")
    assert found(directory.scan()) == {"one": 2}
    write(tmp_path, "a.yaml", "one", partitions=3)
    assert found(directory.scan()) == {"one": 3}


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("kind: [", 1, ""),
        (TEXT.format(name="one", partitions=0), 6, "spec.numPartitions"),
        (TEXT.format(name="one", partitions=1) + "  replication: 2\n", 7, "spec.replication"),
        (TEXT.format(name="one", partitions=1) + "---\n" + TEXT.format(name="one", partitions=2), 8, "metadata.name"),
    ],
)
def test_a_bad_file_keeps_its_last_good_state_as_long_as_it_is_bad(
    tmp_path: Path, text: str, line: int, field: str
) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one", "two")
    write(tmp_path, "b.yaml", "three")
    directory.scan()
    (tmp_path / "a.yaml").write_text(text)
    for _ in range(4):
        snapshot = directory.scan()
        assert found(snapshot) == {"one": 1, "two": 1, "three": 1}
    (problem,) = snapshot.problems
    assert (problem.file, problem.line, problem.field, problem.ignored) == ("a.yaml", line, field, False)
    assert problem.what
    assert problem.cure
    write(tmp_path, "a.yaml", "one", "two", partitions=2)
    mended = directory.scan()
    assert (found(mended), mended.problems) == ({"one": 2, "two": 2, "three": 1}, ())


def test_a_bad_document_takes_its_file_along_not_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    (tmp_path / "b.yaml").write_text(TEXT.format(name="two", partitions=1) + "---\nkind: KafkaChannel\n")
    assert found(Directory(tmp_path).scan()) == {"one": 1}


def test_kinds_of_others_are_told_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n" + TEXT.format(name="one", partitions=1)
    )
    snapshot = Directory(tmp_path).scan()
    assert found(snapshot) == {"one": 1}
    (problem,) = snapshot.problems
    assert (problem.line, problem.ignored, problem.object) == (2, True, "ConfigMap default/x")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("kind: KafkaChannel", "kind: KafkaChanel"),
        ("kind: KafkaChannel", "kind: Deployment"),
        ("messaging.knative.dev/", "messaging.knative.de/"),
        ("messaging.knative.dev/v1beta1", "v1"),
        ("name: two", "name: one2\n---\napiVersion: v1\nkind: Secret"),
        ("name: two", "name: three"),
    ],
)
def test_what_a_typing_error_hides_stays_until_it_is_mended(tmp_path: Path, right: str, wrong: str) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    write(tmp_path, "b.yaml", "two", partitions=2)
    write(tmp_path, "c.yaml", "three")
    directory.scan()
    directory.scan()
    text = (tmp_path / "b.yaml").read_text()
    assert right in text
    (tmp_path / "b.yaml").write_text(text.replace(right, wrong))
    for _ in range(4):
        snapshot = directory.scan()
        assert found(snapshot)["two"] == 2
        kept = snapshot.problems[-1]
        assert (kept.file, kept.object) == ("b.yaml", "KafkaChannel default/two")
        assert "stays until this file has no problem" in kept.what
    (tmp_path / "b.yaml").unlink()
    assert "two" in found(directory.scan()), "an editor may save it by renaming"
    (tmp_path / "b.yaml").write_text(text)
    assert (found(directory.scan()), directory.scan().problems) == ({"one": 1, "two": 2, "three": 1}, ())
    (tmp_path / "b.yaml").unlink()
    directory.scan()
    assert "two" not in found(directory.scan())


def test_a_kind_that_looks_like_ours_is_pointed_at_it(tmp_path: Path) -> None:
    text = TEXT.format(name="one", partitions=1).replace("KafkaChannel", "KafkaChanel")
    (tmp_path / "a.yaml").write_text(text)
    (problem,) = Directory(tmp_path).scan().problems
    assert "did you mean apiVersion: messaging.knative.dev/v1beta1 and kind: KafkaChannel?" in problem.cure


def test_problems_name_their_object(tmp_path: Path) -> None:
    text = TEXT.format(name="one\n  namespace: shop", partitions=0)
    (tmp_path / "a.yaml").write_text(text + "---\nkind: 3\n---\nmetadata: 4\n")
    problems = Directory(tmp_path).scan().problems
    assert {problem.object for problem in problems} == {"KafkaChannel shop/one", ""}


def test_of_two_files_with_one_name_the_first_counts_and_keeps_it(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "m.yaml", "one", partitions=1)
    directory.scan()
    write(tmp_path, "a.yaml", "one", partitions=5)
    snapshot = directory.scan()
    assert found(snapshot) == {"one": 1}
    assert [(problem.file, problem.ignored) for problem in snapshot.problems] == [("a.yaml", True)]
    (tmp_path / "m.yaml").unlink()
    assert found(directory.scan()) == {"one": 5}


def test_an_object_that_may_have_moved_into_a_bad_file_stays(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one", "two")
    directory.scan()
    directory.scan()
    write(tmp_path, "a.yaml", "one")
    (tmp_path / "b.yaml").write_text("kind: [")
    for _ in range(4):
        assert found(directory.scan()) == {"one": 1, "two": 1}
    (tmp_path / "b.yaml").unlink()
    directory.scan()
    assert found(directory.scan()) == {"one": 1}


def test_a_file_that_was_bad_before_does_not_hold_up_removals_elsewhere(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    (tmp_path / "b.yaml").write_text("kind: [")
    for _ in range(3):
        directory.scan()
    (tmp_path / "a.yaml").unlink()
    directory.scan()
    assert found(directory.scan()) == {}


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
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n")
    assert not directory.scan().complete, "it may have been one of ours before somebody led"
    write(tmp_path, "b.yaml", "one")
    assert not directory.scan().complete, "it may have had another name"


def test_a_directory_that_goes_away_is_a_problem_and_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    write(root, "a.yaml", "one")
    directory = Directory(root)
    directory.scan()
    root.rename(tmp_path / "elsewhere")
    for _ in range(3):
        snapshot = directory.scan()
    assert found(snapshot) == {"one": 1}
    assert not snapshot.complete
    assert "cannot be read" in snapshot.problems[0].what


def test_a_missing_directory_is_a_sentence_at_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist\. Make it"):
        Directory(tmp_path / "nowhere").check()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        Directory(tmp_path / "file").check()


def test_an_old_file_is_not_read_again(tmp_path: Path) -> None:
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


def test_several_files_that_vanish_at_once_keep_their_word_for_a_while(tmp_path: Path) -> None:
    directory = Directory(tmp_path, emptied_s=3600)
    write(tmp_path, "a.yaml", "one")
    write(tmp_path, "b.yaml", "two")
    for _ in range(2):
        directory.scan()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).unlink()
    for _ in range(3):
        snapshot = directory.scan()
        assert found(snapshot) == {"one": 1, "two": 1}
        assert "all 2 files are gone at once" in snapshot.problems[0].what
        assert not snapshot.complete
    write(tmp_path, "a.yaml", "one")
    directory.scan()
    assert found(directory.scan()) == {"one": 1}


def test_after_the_while_they_are_gone(tmp_path: Path) -> None:
    directory = Directory(tmp_path, emptied_s=0)
    write(tmp_path, "a.yaml", "one")
    write(tmp_path, "b.yaml", "two")
    for _ in range(2):
        directory.scan()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).unlink()
    directory.scan()
    assert found(directory.scan()) == {}


def test_a_file_that_turned_bad_while_it_was_saved_keeps_what_it_held(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    directory.scan()
    (tmp_path / "a.yaml").write_text("")
    directory.scan()
    (tmp_path / "a.yaml").write_text("kind: [")
    for _ in range(3):
        assert found(directory.scan()) == {"one": 1}


@contextmanager
def folder_without_privileges() -> Iterator[Path]:
    """A directory, looked at by a user who may not do everything: root may, whatever the permissions."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "resources")
        root.mkdir()
        for path in (Path(name), root):
            path.chmod(0o777)
        is_root = os.geteuid() == 0
        if is_root:
            os.setresuid(65534, 65534, 0)
        try:
            yield root
        finally:
            if is_root:
                os.setresuid(0, 0, 0)
            for path in Path(name).rglob("*"):
                path.chmod(0o777)


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_what_is_in_a_folder_that_cannot_be_read_stays(mode: int) -> None:
    with folder_without_privileges() as root:
        directory = Directory(root)
        write(root, "a.yaml", "one")
        write(root, "team/b.yaml", "two")
        write(root, "team/deep/c.yaml", "three")
        directory.scan()
        directory.scan()
        (root / "team").chmod(mode)
        (root / "a.yaml").unlink()
        for _ in range(3):
            snapshot = directory.scan()
            assert {"two", "three"} <= found(snapshot).keys()
            assert [(problem.file, problem.cure) for problem in snapshot.problems] == [("team", "mend its permissions")]
            assert not snapshot.complete
        assert "one" not in found(snapshot)
        assert Directory(root).scan().problems != ()
        (root / "team").chmod(0o755)
        assert directory.scan().problems == ()
        (root / "team" / "b.yaml").unlink()
        directory.scan()
        assert found(directory.scan()) == {"three": 1}


def test_a_file_that_cannot_be_read_keeps_its_last_good_state() -> None:
    with folder_without_privileges() as root:
        directory = Directory(root)
        write(root, "a.yaml", "one")
        directory.scan()
        (root / "a.yaml").chmod(0o000)
        for _ in range(3):
            snapshot = directory.scan()
        assert found(snapshot) == {"one": 1}
        assert snapshot.problems[0].cure == "mend its permissions"


def test_a_link_to_a_folder_is_told_and_keeps_what_was_there(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    write(root, "team/a.yaml", "one")
    directory = Directory(root)
    directory.scan()
    (root / "team").rename(tmp_path / "team")
    (root / "team").symlink_to(tmp_path / "team")
    for _ in range(3):
        snapshot = directory.scan()
        assert found(snapshot) == {"one": 1}
        assert "link to a folder" in snapshot.problems[0].what


def test_links_to_files_are_followed_and_one_to_nothing_is_told(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    root.mkdir()
    write(tmp_path, "elsewhere.yaml", "one")
    (root / "a.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (root / "b.yaml").symlink_to(tmp_path / "nowhere.yaml")
    snapshot = Directory(root).scan()
    assert found(snapshot) == {"one": 1}
    assert [(problem.file, problem.cure) for problem in snapshot.problems] == [("b.yaml", "mend or remove the link")]


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    os.mkfifo(tmp_path / "b.yaml")  # opening it would wait for a writer
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    snapshot = Directory(tmp_path).scan()
    assert found(snapshot) == {"one": 1}
    assert [problem.file for problem in snapshot.problems] == ["b.yaml", "c.yaml"]


def test_over_the_limit_of_files_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "FILES_MAX", 3)
    for name in ("k", "l", "m"):
        write(tmp_path, f"{name}.yaml", name)
    directory = Directory(tmp_path)
    directory.scan()
    assert directory.scan() == Snapshot(directory.scan().objects, (), complete=True), "so many are fine"
    write(tmp_path, "a.yaml", "a")
    (tmp_path / "k.yaml").unlink()
    write(tmp_path, "b.yaml", "b")
    for _ in range(3):
        snapshot = directory.scan()
        assert found(snapshot) == {"k": 1, "l": 1, "m": 1}
        assert [problem.what for problem in snapshot.problems] == ["it holds over 3 files, and no change is taken"]
        assert not snapshot.complete
    (tmp_path / "b.yaml").unlink()
    directory.scan()
    assert found(directory.scan()) == {"a": 1, "l": 1, "m": 1}


def test_a_file_name_that_is_no_utf8_can_be_written_down(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.yaml", "w") as file:
        file.write("kind: [")
    os.mkdir(os.fsencode(tmp_path) + b"/\xfe")
    os.symlink(b"\xfe", os.fsencode(tmp_path) + b"/\xfd")
    files = {problem.file for problem in Directory(tmp_path).scan().problems}
    assert files == {"\\xff.yaml", "\\xfd"}
    assert all(file.encode() for file in files)
