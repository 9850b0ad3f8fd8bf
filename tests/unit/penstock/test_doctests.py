"""The examples in the docstrings of the Python API, and in its pages."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import penstock

_REPOSITORY = Path(__file__).parents[3]
_MODULES = ["penstock", *(f"penstock.{name}" for name in ("cesql", "client", "events", "subscriber", "testing"))]
_PAGES = ["docs/reference/python.md", "docs/how-to/write-a-handler.md"]


@pytest.mark.parametrize("name", _MODULES)
def test_the_examples_of_a_module_are_right(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.parametrize("page", _PAGES)
def test_the_examples_of_a_page_are_right(page: str) -> None:
    done = doctest.testfile(str(_REPOSITORY / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted
    assert done.failed == 0


def test_every_public_name_is_there_and_in_the_reference() -> None:
    page = (_REPOSITORY / "docs" / "reference" / "python.md").read_text()
    assert [name for name in penstock.__all__ if not getattr(penstock, name).__doc__] == []
    assert [name for name in penstock.__all__ if f"`penstock.{name}" not in page] == []
    with pytest.raises(AttributeError, match="'penstock' has no attribute 'client_of'"):
        penstock.client_of  # noqa: B018
