"""What the directory cannot read, or might misread: reported with a hint, and nothing is removed because of it."""

from __future__ import annotations

import codecs
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.source import directory as directory_module
from controller.source.directory import Directory, Snapshot
from tests.unit.controller.source.resource_files import TEXT, partitions_of, write

_LOOKS = 500


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("kind: KafkaChannel", "kind: KafkaChanel"),
        ("messaging.knative.dev/", "messaging.knative.de/"),
        ("messaging.knative.dev/v1beta1", "v1"),
    ],
)
def test_while_a_typo_may_hide_a_resource_the_directory_is_not_known(tmp_path: Path, right: str, wrong: str) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    write(tmp_path, "b.yaml", "two", partitions=2)
    directory.scan()
    text = (tmp_path / "b.yaml").read_text()
    assert right in text
    (tmp_path / "b.yaml").write_text(text.replace(right, wrong))
    for _ in range(4):
        snapshot = directory.scan()
        assert not snapshot.complete
        (problem,) = snapshot.problems
        assert (problem.file, problem.object.endswith("default/two")) == ("b.yaml", True)
    (tmp_path / "b.yaml").unlink()
    assert directory.scan().complete


def test_problems_name_their_object(tmp_path: Path) -> None:
    text = TEXT.format(name="one\n  namespace: shop", partitions=0)
    (tmp_path / "a.yaml").write_text(text + "---\nkind: 3\n---\nmetadata: 4\n")
    problems = Directory(tmp_path).scan().problems
    assert {problem.object for problem in problems} == {"KafkaChannel shop/one", ""}


ANCHORS = b"".join(b"k%d: &a%d x\n" % (number, number) for number in range(30_000))


@pytest.mark.parametrize("content", [b"", b"\n \n", b"# nothing here\n", b"---\n---\n", b"\xef\xbb\xbf", b"~\n"])
def test_file_without_a_document_is_not_a_problem(tmp_path: Path, content: bytes) -> None:
    directory = Directory(tmp_path)
    (tmp_path / "a.yaml").write_bytes(content)
    write(tmp_path, "b.yaml", "three")
    directory.scan()
    snapshot = directory.scan()
    assert (partitions_of(snapshot), snapshot.problems, snapshot.complete) == ({"three": 1}, (), True)


def test_file_with_too_many_anchors_is_reported_and_keeps_its_resources(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    write(tmp_path, "a.yaml", "one")
    directory.scan()
    (tmp_path / "a.yaml").write_bytes(ANCHORS)
    write(tmp_path, "b.yaml", "two")
    for _ in range(3):
        snapshot = directory.scan()
        assert partitions_of(snapshot) == {"one": 1, "two": 1}
    (problem,) = snapshot.problems
    assert (problem.file, problem.line) == ("a.yaml", 1001)
    assert "anchors" in problem.what


@contextmanager
def folder_without_privileges() -> Iterator[Path]:
    """A directory, looked at by a user who may not do everything: root may, whatever the permissions."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "resources")
        root.mkdir()
        for path in (Path(name), root):
            path.chmod(0o777)
        # This user may not be able to read Python's own folder, and Python remembers that a codec was not found.
        codecs.lookup("utf-8-sig")
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
            assert {"two", "three"} <= partitions_of(snapshot).keys()
            assert [(problem.file, problem.hint) for problem in snapshot.problems] == [("team", "fix its permissions")]
            assert not snapshot.complete
        assert "one" not in partitions_of(snapshot)
        assert Directory(root).scan().problems != ()
        (root / "team").chmod(0o755)
        assert directory.scan().problems == ()
        (root / "team" / "b.yaml").unlink()
        directory.scan()
        assert partitions_of(directory.scan()) == {"three": 1}


def test_folder_that_vanishes_while_it_is_read_needs_no_other_permissions(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            (tmp_path / "team" / "deep").mkdir(parents=True)
            shutil.rmtree(tmp_path / "team")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        directory = Directory(tmp_path)
        problems = [problem for _ in range(_LOOKS) for problem in directory.scan().problems]
    finally:
        over.set()
        thread.join()
    assert {(problem.what, problem.hint) for problem in problems} <= {
        ("the folder was removed while it was read", "ignore this if the folder was removed")
    }


def test_file_that_cannot_be_read_keeps_its_last_good_state() -> None:
    with folder_without_privileges() as root:
        directory = Directory(root)
        write(root, "a.yaml", "one")
        directory.scan()
        (root / "a.yaml").chmod(0o000)
        for _ in range(3):
            snapshot = directory.scan()
        assert partitions_of(snapshot) == {"one": 1}
        assert snapshot.problems[0].hint == "fix its permissions"


def test_link_to_a_folder_is_reported_and_keeps_its_resources(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    write(root, "team/a.yaml", "one")
    directory = Directory(root)
    directory.scan()
    (root / "team").rename(tmp_path / "team")
    (root / "team").symlink_to(tmp_path / "team")
    for _ in range(3):
        snapshot = directory.scan()
        assert partitions_of(snapshot) == {"one": 1}
        assert "link to a folder" in snapshot.problems[0].what


def test_links_to_files_are_followed_and_broken_ones_reported(tmp_path: Path) -> None:
    root = tmp_path / "resources"
    root.mkdir()
    write(tmp_path, "elsewhere.yaml", "one")
    (root / "a.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (root / "b.yaml").symlink_to(tmp_path / "nowhere.yaml")
    snapshot = Directory(root).scan()
    assert partitions_of(snapshot) == {"one": 1}
    assert [(problem.file, problem.hint) for problem in snapshot.problems] == [("b.yaml", "fix or remove the link")]


def test_irregular_file_is_not_opened(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "one")
    os.mkfifo(tmp_path / "b.yaml")  # opening it would wait for a writer
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    snapshot = Directory(tmp_path).scan()
    assert partitions_of(snapshot) == {"one": 1}
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
        assert partitions_of(snapshot) == {"k": 1, "l": 1, "m": 1}
        assert [problem.what for problem in snapshot.problems] == ["it has more than 3 files; changes are ignored"]
        assert not snapshot.complete
    (tmp_path / "b.yaml").unlink()
    directory.scan()
    assert partitions_of(directory.scan()) == {"a": 1, "l": 1, "m": 1}


def test_file_name_that_is_not_utf8_can_be_reported(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.yaml", "w") as file:
        file.write("kind: [")
    os.mkdir(os.fsencode(tmp_path) + b"/\xfe")
    os.symlink(b"\xfe", os.fsencode(tmp_path) + b"/\xfd")
    files = {problem.file for problem in Directory(tmp_path).scan().problems}
    assert files == {"\\xff.yaml", "\\xfd"}
    assert all(file.encode() for file in files)


def test_file_that_is_removed_after_its_folder_was_listed_is_not_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.yaml", "one")
    write(tmp_path, "b.yaml", "two")
    directory = Directory(tmp_path)
    for _ in range(2):
        directory.scan()
    walk = directory_module._walk

    def removing(root: Path) -> object:
        listed = walk(root)
        (tmp_path / "b.yaml").unlink(missing_ok=True)
        return listed

    monkeypatch.setattr(directory_module, "_walk", removing)
    first, second = directory.scan(), directory.scan()
    assert (partitions_of(first), first.problems, first.complete) == ({"one": 1}, (), False)
    assert (second.problems, second.complete) == ((), True)
