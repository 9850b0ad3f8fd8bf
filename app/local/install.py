"""Makes the environment of the repository for make, and prints what it downloads, because that takes minutes.

It runs before anything is installed, so it uses only the standard library:

    python3 -E -s -m app.local.install .venv requirements.lock --java --ports
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app.local.machine import PORTS, busy_ports, missing_here

_WHEEL = re.compile(
    r"^\s*(Downloading|Using cached) (?:\S*/)?(\S+?)-\d\S*(?<!\.metadata) \(([\d.]+) (bytes|kB|MB|GB)\)"
)
_MB = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def words(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines to print for pip's output: large packages as they come, and the sum at the end."""
    downloaded = cached = 0.0
    count = 0
    for line in lines:
        match = _WHEEL.match(line)
        if match is None:
            continue
        how, name, size, unit = match.groups()
        megabytes = float(size) * _MB[unit]
        count += 1
        if how == "Downloading":
            downloaded += megabytes
        else:
            cached += megabytes
        if megabytes >= 5:
            yield f"  {how.lower()} {name}, {megabytes:.0f} MB"
    if count:
        from_cache = f", {cached:.0f} MB were in pip's cache" if cached else ""
        yield f"  {count} packages, {downloaded:.0f} MB downloaded{from_cache}; installing them ..."


def main(arguments: Sequence[str]) -> int:
    """Make the environment in the folder `arguments[0]`, with the packages of the lock file `arguments[1]` and with
    Penstock. Returns an exit code.

    --java     this machine must have one for Kafka
    --ports    the ports of `penstock up` must be free
    --ask WHAT ask on a terminal first: they are large
    """
    folder, lock = Path(arguments[0]), Path(arguments[1])
    if problem := _unfit(java="--java" in arguments, ports="--ports" in arguments):
        return _failed(problem)
    if "--ask" in arguments and not _agreed(arguments[arguments.index("--ask") + 1]):
        return _failed("Nothing was installed.")
    python = str(folder / "bin" / "python")
    # Not by `venv` itself, which does not say why it fails.
    pip = [python, "-I", "-m", "ensurepip", "--upgrade", "--default-pip"]
    try:
        for command in ([sys.executable, "-m", "venv", "--without-pip", str(folder)], pip):
            code, said = run(command)
            if code:
                return _failed(why(said, folder))
        return install(python, locked(lock), ["--no-deps", "-e", "."])
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Run the same command again to continue; downloads that are complete are kept.",
            file=sys.stderr,
        )
        return 128 + signal.SIGINT


def _unfit(*, java: bool, ports: bool) -> str | None:
    """Returns why this machine cannot do it; None: it can."""
    problems = []
    if missing := missing_here(java=java):
        problems += ["This machine does not have:", *missing]
    if ports and (busy := busy_ports()):
        named = ", ".join(f"{port} ({PORTS[port]})" for port in busy)
        problems.append(f"Other programs use these ports: {named}. Stop those programs, or use free ports:")
        problems.append("  make up UP=--any-port")
    return "\n".join(problems) or None


def _agreed(what: str) -> bool:
    print(f"This downloads {what} into this folder, once.", flush=True)
    if not sys.stdin.isatty():
        return True
    return input("Install the packages now? [Y/n] ").strip().lower() in ("", "y", "yes")


def locked(lock: Path) -> list[str]:
    """Returns the arguments of pip for a lock file, which has every package. Without --no-deps, pip takes another
    version of a package that is required with an extra."""
    return ["--no-deps", "--require-hashes", "-r", str(lock)]


def install(python: str, *packages: Sequence[str]) -> int:
    """Have the pip of `python` install packages; each of `packages` has the arguments of one call. Prints what it
    downloads. Returns an exit code."""
    folder = Path(python).parents[1]
    print(f"Downloading Python packages into {folder} (once) ...", flush=True)
    for arguments in packages:
        # Python compiles what it imports; to compile all of it takes longer than to install it.
        code, said = run([python, "-m", "pip", "install", "--progress-bar", "off", "--no-compile", *arguments])
        if code:
            return _failed(why(said, folder))
    return 0


def run(command: list[str]) -> tuple[int, list[str]]:
    """Run a command, and print the part of its output that is for people. Returns its exit code and its output. Ctrl-C
    ends it, and its output about that is dropped."""
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
    """Returns why a command failed, from its output."""
    if any("No space left on device" in line for line in said):
        return f"The disk is full: {folder.absolute()}. Free some space, and run the same command again."
    return "".join(said[-15:])


def _failed(text: str) -> int:
    print(text.rstrip(), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
