"""A lock file has one owner at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka.locks import locked, owned
from knative.errors import NotReadyError, PenstockError, UsageError


def test_lock_has_one_owner_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, 1, "is busy"),
        pytest.raises(NotReadyError, match=r"Another process is busy.*lock"),
        locked(path, 0, "is busy"),
    ):
        pass
    with locked(path, 0, "is busy"):
        assert path.exists()


def test_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with (
        owned(folder, "--dir", "Data", "runs in", "--dir DIR"),
        pytest.raises(UsageError) as raised,
        owned(folder, "--dir", "Data", "runs in", "--dir DIR"),
    ):
        pass
    assert str(raised.value) == (
        f"Another command runs in {folder}. Stop it (Ctrl-C in its terminal). "
        "For a second one choose other directories and ports: --dir DIR."
    )
    with owned(folder, "--dir", "Data", "runs in", "--dir DIR"):
        pass


@pytest.mark.parametrize("file", ["folder", "folder/lock"])
def test_folder_that_cannot_be_written_names_its_option(file: str, tmp_path: Path) -> None:
    """A file in the place of the folder, and a folder in the place of the lock: what root cannot write either."""
    folder = tmp_path / "folder"
    if file == "folder":
        folder.touch()
    else:
        (tmp_path / file).mkdir(parents=True)
    with pytest.raises(PenstockError) as raised, owned(folder, "--dir", "Data", "runs in", "--dir DIR"):
        pass
    reason = "File exists" if file == "folder" else "Is a directory"
    assert str(raised.value) == (
        f"Data cannot be written to {folder}: {reason}. "
        "Choose another directory with --dir DIR, or check the permissions and the free space of this directory."
    )


def test_error_of_the_owner_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), owned(tmp_path, "--dir", "Data", "runs in", "--dir DIR"):
        raise FileNotFoundError
