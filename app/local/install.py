"""Runs `pip install` for make and prints what it downloads, because the first installation takes minutes.

It runs before anything is installed, so it uses only the standard library:

    python -I app/local/install.py PIP-ARGUMENT...
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

_WHEEL = re.compile(
    r"^\s*(Downloading|Using cached) (?:\S*/)?(\S+?)-\d\S*(?<!\.metadata) \(([\d.]+) (bytes|kB|MB|GB)\)"
)
_MB = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
_LARGE_MB = 5.0
_TAIL_LINES = 15


def words(lines: Iterable[str]) -> Iterator[str]:
    """The lines to print for pip's output: large packages as they come, and the sum at the end."""
    downloaded = cached = 0.0
    count = 0
    for line in lines:
        found = _WHEEL.match(line)
        if found is None:
            continue
        how, name, size, unit = found.groups()
        megabytes = float(size) * _MB[unit]
        count += 1
        if how == "Downloading":
            downloaded += megabytes
        else:
            cached += megabytes
        if megabytes >= _LARGE_MB:
            yield f"  {how.lower()} {name}, {megabytes:.0f} MB"
    if count:
        known = f", {cached:.0f} MB were in pip's cache" if cached else ""
        yield f"  {count} packages, {downloaded:.0f} MB downloaded{known}; installing them ..."


def main(arguments: list[str]) -> int:
    """Run pip and return its exit code. If it fails, print its last lines."""
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", *arguments]
    last: list[str] = []

    def heard(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            last[:] = [*last[-_TAIL_LINES:], line]
            if line.startswith("Installing collected packages"):
                return
            yield line

    print("Downloading Python packages into .venv (once) ...", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for sentence in words(heard(pip.stdout)):
            print(sentence, flush=True)
        last += pip.stdout.readlines()
    if pip.returncode:
        print("".join(last[-_TAIL_LINES:]), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
