"""What the extras of pyproject.toml bring, when all of them are installed."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions

from app.settings.extras import MODULES, REPORT, need
from tests.support.processes import REPOSITORY

_EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def _names(extra: str) -> set[str]:
    return {_name(re.split(r"[\[=<>~!; ]", requirement)[0]) for requirement in _EXTRAS[extra]}


def _name(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def test_need_passes_when_everything_is_installed() -> None:
    for extra in MODULES:
        need(extra, "a test")


def test_extras_bring_the_modules_that_we_import() -> None:
    owners, strangers = packages_distributions(), []
    for extra, modules in MODULES.items():
        listed = _names(extra)
        if "penstock" in listed:  # with the packages of another extra
            listed |= _names(REPORT)
        for module in modules:
            bring = {_name(owner) for owner in owners[module.partition(".")[0]]}
            if module != "py4j" and not bring & listed:  # a part of pyspark's own requirements
                strangers.append((extra, module))
    assert strangers == []
