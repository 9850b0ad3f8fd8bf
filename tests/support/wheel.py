"""The wheel as users get it: built from a copy of the sources, installed into an environment of its own.

Nothing is downloaded: the environment's requirements are links to the packages that run the tests, and only to those
that the wheel's own metadata asks for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.processes import REPOSITORY

_LIMIT_S = 300
_COMMAND_LIMIT_S = 120
#: Since then dispatchers hold groups as they do now (decision 37). Beside one from before, events are delivered twice.
_FORMER = "97b6e345cb3b"
_EXCLUDED = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["uv"]["exclude-dependencies"]
_NOT_COPIED = (".*", "tests", "benchmarks", "decisions", "build", "dist", "*.egg-info", "__pycache__", "*.lock")


def build_wheel(folder: Path) -> Path:
    """Build it from a copy in `folder`, so that no earlier build can add to it."""
    sources = folder / "sources"
    shutil.copytree(REPOSITORY, sources, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    return _build(folder, sources)


def build_former_wheel(folder: Path) -> Path:
    """That of the last release; while there is none, that of `_FORMER` as version 0.0.0."""
    if subprocess.run(
        ["git", "-C", str(REPOSITORY), "cat-file", "-e", f"{_FORMER}^{{commit}}"], check=False
    ).returncode:
        pytest.skip("NOT RUN HERE: this checkout has no history. `git fetch --unshallow --tags` gets it.")
    sources = folder / "sources"
    sources.mkdir(parents=True)
    tags = _git("tag", "--list", "v*", "--no-contains", "HEAD", "--sort=-version:refname").split()
    archive = folder / "sources.tar"
    _git("archive", "--output", str(archive), tags[0] if tags else _FORMER)
    shutil.unpack_archive(archive, sources, filter="data")
    if not tags:
        project = sources / "pyproject.toml"
        project.write_text(re.sub(r"(?m)^version = .*", 'version = "0.0.0"', project.read_text(), count=1))
    return _build(folder, sources)


def _git(*arguments: str) -> str:
    return _run("git", "-C", str(REPOSITORY), *arguments).strip()


def _build(folder: Path, sources: Path) -> Path:
    _run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), str(sources))
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment with the wheel, what it requires, and what `extras` require."""

    def __init__(self, folder: Path, wheel: Path, extras: tuple[str, ...] = ()) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        _run(
            *(sys.executable, "-m", "pip", "--python", str(self.python), "install"),
            *("--no-index", "--no-deps", str(wheel)),
        )
        (site,) = folder.glob("lib/python*/site-packages")
        (metadata,) = site.glob("penstock-*.dist-info")
        needed = _closure(Distribution.at(metadata), extras)
        self.requirements = frozenset(needed)
        self.version = Distribution.at(metadata).version
        for name in needed:
            _link(distribution(name), site)

    def run(self, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`penstock ARGUMENT...` in `folder`, to its end."""
        return subprocess.run(
            self.command(*arguments), cwd=folder, env=self.variables(**variables), capture_output=True, text=True,
            check=False, timeout=_COMMAND_LIMIT_S,
        )  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        """The script that pip has made."""
        return [str(self.folder / "bin" / "penstock"), *arguments]

    def variables(self, **given: str) -> dict[str, str]:
        """Those of this process, without what could lead to the repository or change a setting."""
        barred = ("PENSTOCK_", "PYTHON", "VIRTUAL_ENV")
        return {name: value for name, value in os.environ.items() if not name.startswith(barred)} | given


def _closure(root: Distribution, extras: Iterable[str]) -> set[str]:
    """Names of all distributions that are needed, as pip would find them."""
    names: set[str] = set()
    done: set[tuple[str, str]] = set()
    waiting = [(root, extra) for extra in ("", *extras)]
    while waiting:
        owner, extra = waiting.pop()
        for requirement in _requirements(owner, extra):
            if requirement.name in _EXCLUDED:
                continue
            if requirement.name == root.name:  # an extra that has the packages of another one
                waiting += [(root, part) for part in requirement.extras]
                continue
            names.add(requirement.name)
            for part in ("", *requirement.extras):
                if (requirement.name, part) not in done:
                    done.add((requirement.name, part))
                    waiting.append((distribution(requirement.name), part))
    return names


def _requirements(owner: Distribution, extra: str) -> Iterator[Requirement]:
    for text in owner.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _link(package: Distribution, site: Path) -> None:
    """Link what the package has at the top of site-packages; a folder shared by several packages is linked once."""
    files = package.files
    assert files is not None, package
    for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
        target = site / top
        if not target.exists():
            target.symlink_to(str(package.locate_file(top)))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
