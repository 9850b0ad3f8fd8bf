"""The vendored scripts are those of the lock files, with their licences."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.vendor import FOR_TESTS, LOCK, SHIPPED, read_lock

_WORDS = {
    "0BSD": "with or without fee is hereby",
    "MIT": "Permission is hereby granted, free of charge",
    "MPL-2.0": "Mozilla Public License, version 2.0",
}


@pytest.mark.parametrize("folder", [SHIPPED, FOR_TESTS], ids=["shipped", "for tests"])
def test_folder_holds_what_the_lock_file_names(folder: Path) -> None:
    packages = read_lock(folder).values()
    files = {file["name"]: file["sha256"] for package in packages for file in package["files"].values()}

    assert {path.name for path in folder.iterdir()} == {LOCK, *files}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files} == files


@pytest.mark.parametrize(
    ("folder", "licences"), [(SHIPPED, {"0BSD", "MIT"}), (FOR_TESTS, {"MPL-2.0"})], ids=["shipped", "for tests"]
)
def test_each_package_is_locked_and_has_a_licence_that_allows_this_use(folder: Path, licences: set[str]) -> None:
    for package in read_lock(folder).values():
        assert package["licence"] in licences
        assert package["integrity"].startswith("sha512-")
        (licence,) = (file["name"] for file in package["files"].values() if file["name"].endswith(".LICENSE.txt"))
        assert _WORDS[package["licence"]] in " ".join((folder / licence).read_text("utf-8").split())
