"""Makes the environment of the repository for make, and prints what it downloads, because that takes minutes.

It runs before anything is installed, so it uses only the standard library:

    python3 -I app/local/install.py .venv requirements-dev.lock
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

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


def main(folder: Path, lock: Path) -> int:
    """Make the environment in `folder`, with the packages of `lock` and with Penstock. Returns an exit code."""
    missing = [name for name in ("ensurepip", "venv") if importlib.util.find_spec(name) is None]
    if missing:
        return _failed(
            f"{sys.executable} has no module {missing[0]}; install it (Debian, Ubuntu: apt-get install python3-venv)"
        )
    python = str(folder / "bin" / "python")
    # Not by `venv` itself, which does not say why it fails.
    pip = [python, "-I", "-m", "ensurepip", "--upgrade", "--default-pip"]
    install = [python, "-m", "pip", "install"]
    # The lock has every package. Without --no-deps, pip takes another version of a package that is required with an
    # extra.
    locked = [*install, "--progress-bar", "off", "--no-deps", "--require-hashes", "-r", str(lock)]
    own = [*install, "--no-build-isolation", "--no-deps", "-e", "."]
    try:
        for command in ([sys.executable, "-m", "venv", "--without-pip", str(folder)], pip, locked, own):
            if command is locked:
                print(f"Downloading Python packages into {folder} (once) ...", flush=True)
            code, said = _run(command)
            if code:
                return _failed(why(said, folder))
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on with what is downloaded already.", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def _run(command: list[str]) -> tuple[int, list[str]]:
    """Run a command, print what of its output is for people; its exit code and its output. At Ctrl-C it is ended,
    and what it says of that is dropped."""
    said: list[str] = []

    def heard(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            said.append(line)
            if line.startswith("Installing collected packages"):
                return
            yield line

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for sentence in words(heard(process.stdout)):
                print(sentence, flush=True)
            said += process.stdout.readlines()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C does not wait for it
                process.communicate()
            raise
    return process.returncode, said


def why(said: list[str], folder: Path) -> str:
    """Why a command failed, from its output."""
    if any("No space left on device" in line for line in said):
        return f"The disk is full: {folder.absolute()}. Free some space, and run the same command again."
    return "".join(said[-_TAIL_LINES:])


def _failed(text: str) -> int:
    print(text.rstrip(), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
