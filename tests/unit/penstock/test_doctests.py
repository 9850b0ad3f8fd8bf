"""The examples in the docstrings of the Python API, and in its pages."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.handlers import registered

_REPOSITORY = Path(__file__).parents[3]
_MODULES = ["penstock", *(f"penstock.{name}" for name in ("cesql", "client", "events", "subscriber", "testing"))]
_REFERENCE = _REPOSITORY / "docs" / "reference" / "python.md"
_HOW_TO = _REPOSITORY / "docs" / "how-to" / "write-a-handler.md"


@pytest.mark.parametrize("name", _MODULES)
def test_examples_of_a_module_are_right(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_examples_of_the_reference_are_right() -> None:
    done = doctest.testfile(str(_REFERENCE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted
    assert done.failed == 0


def test_files_of_the_how_to_work_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shortest, handler, test, *_ = re.findall(r"```python\n(.*?)```", _HOW_TO.read_text(), re.DOTALL)
    (tmp_path / "shortest.py").write_text(shortest)
    (tmp_path / "orders.py").write_text(handler)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(test, "test_orders.py", "exec"), names)
    (function,) = [names[name] for name in names if name.startswith("test_")]
    function()
    importlib.import_module("shortest")
    assert registered["ship"].filter == "type = 'order.created'"
    for name in ("orders", "shortest"):
        monkeypatch.delitem(sys.modules, name)
    del registered["ship"]


def test_every_public_name_is_there_and_in_the_reference() -> None:
    page = _REFERENCE.read_text()
    assert [name for name in penstock.__all__ if not getattr(penstock, name).__doc__] == []
    assert [name for name in penstock.__all__ if f"`penstock.{name}" not in page] == []
    with pytest.raises(AttributeError, match="'penstock' has no attribute 'client_of'"):
        penstock.client_of  # noqa: B018
