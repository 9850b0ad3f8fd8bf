"""The first set-up says what it downloads, from the lines that pip prints."""

from __future__ import annotations

from pathlib import Path

from app.local.install import why, words

_LINES = """\
Collecting aiohttp==3.14.5 (from -r requirements.lock (line 7))
  Downloading aiohttp-3.14.5-cp311-cp311-manylinux_2_17_x86_64.whl.metadata (8.2 kB)
Downloading aiohttp-3.14.5-cp311-cp311-manylinux_2_17_x86_64.whl (1.7 MB)
Downloading https://mirror.example/packages/pyspark-4.0.0.tar.gz (434.1 MB)
Using cached numpy-2.3.5-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)
  Downloading typing_extensions-4.15.0-py3-none-any.whl (900 bytes)
"""


def test_large_packages_and_the_sum_are_printed() -> None:
    # .metadata files are not packages.
    assert list(words(_LINES.splitlines())) == [
        "  downloading pyspark, 434 MB",
        "  using cached numpy, 17 MB",
        "  4 packages, 436 MB downloaded, 17 MB were in pip's cache; installing them ...",
    ]
    assert list(words(["Requirement already satisfied: pip"])) == []


def test_full_disk_is_one_sentence() -> None:
    pip = ["Installing collected packages: numpy\n", "ERROR: [Errno 28] No space left on device\n", "\n"]
    assert why(pip, Path("/d/.venv")) == "The disk is full: /d/.venv. Free some space, and run the same command again."
    assert why(["ERROR: no matching distribution\n"], Path("/d/.venv")) == "ERROR: no matching distribution\n"
