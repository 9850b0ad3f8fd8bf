"""The vendored scripts are those of the lock file, with their licences."""

from __future__ import annotations

import hashlib

from tests.support.vendor import LOCK, VENDOR, read_lock


def test_the_folder_holds_what_the_lock_file_names() -> None:
    files = {file["name"]: file["sha256"] for package in read_lock().values() for file in package["files"].values()}

    assert {path.name for path in VENDOR.iterdir()} == {LOCK.name, *files}
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in files} == files


def test_each_package_is_locked_and_has_a_licence_that_lets_us_ship_it() -> None:
    for package in read_lock().values():
        assert package["licence"] in ("0BSD", "MIT")
        assert package["integrity"].startswith("sha512-")
        (licence,) = (file["name"] for file in package["files"].values() if file["name"].endswith(".LICENSE.txt"))
        text = (VENDOR / licence).read_text("utf-8")
        words = {"0BSD": "with or without fee is hereby", "MIT": "Permission is hereby granted, free of charge"}
        assert words[package["licence"]] in " ".join(text.split())
