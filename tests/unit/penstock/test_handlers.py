"""Handlers register themselves under names that Triggers can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from knative.cesql import CesqlSyntaxError
from knative.errors import UsageError
from penstock import on
from penstock.handlers import registered


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    before = dict(registered)
    registered.clear()
    yield
    registered.clear()
    registered.update(before)


def test_function_stays_as_it_is_and_gives_its_name() -> None:
    @on("type = 'order.created'", retry=2)
    def _bill_order(event: Any) -> str:
        return f"billed {event}"

    assert _bill_order(7) == "billed 7"
    handler = registered["bill-order"]
    assert (handler.filter, handler.retry, handler.function) == ("type = 'order.created'", 2, _bill_order)


def test_what_is_not_valid_is_named() -> None:
    with pytest.raises(CesqlSyntaxError):
        on("type =")
    on(name="audit")(print)
    with pytest.raises(UsageError, match="Two handlers have the name audit"):
        on(name="audit")(print)
    with pytest.raises(UsageError, match="@on was used without parentheses"):
        on(lambda event: None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'three' is not a valid number of retries"):
        on(name="third", retry="three")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be a handler: too many positional arguments"):
        on(name="nothing")(lambda: None)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="'Größe' is not a valid name of a Trigger"):
        on(name="Größe")(print)
