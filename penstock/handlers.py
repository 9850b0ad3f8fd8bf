"""Handlers that `penstock dev` finds: functions with a filter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from knative import cesql
from knative.errors import UsageError
from penstock.subscriber import Handler

_Function = TypeVar("_Function", bound=Handler)
_is_name = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch


@dataclass(frozen=True, slots=True)
class Registered:
    """One handler."""

    name: str  #: of its Trigger
    filter: str | None  #: a CloudEvents SQL expression
    retry: int
    function: Handler


#: Name -> handler, in the order of the program.
registered: dict[str, Registered] = {}


def on(filter: str | None = None, *, name: str | None = None, retry: int = 5) -> Callable[[_Function], _Function]:
    """Mark a function as a handler, for `penstock dev`. `filter`: a CloudEvents SQL expression; `name`: of the Trigger,
    by default that of the function.

    >>> from penstock import on
    >>> @on("type = 'order.created'")
    ... def bill_order(event):
    ...     print(event.get_data())

    The function stays as it is. Raises CesqlSyntaxError, or UsageError for a name that is taken or not valid, a
    number of retries or a function that cannot be used.
    """
    if callable(filter):
        raise UsageError(
            "@on was used without parentheses.", "Write @on() for every event, or @on(\"type = 'order.created'\")."
        )
    if isinstance(retry, bool) or not isinstance(retry, int) or retry < 0:
        raise UsageError(f"{retry!r} is not a valid number of retries.", "Write @on(..., retry=3).")
    if filter is not None:
        cesql.compile(filter)

    def register(function: _Function) -> _Function:
        try:
            with suppress(ValueError):  # a function in C may have no signature
                inspect.signature(function).bind(None)
        except TypeError as problem:
            hint = "Give the function one parameter, the event."
            raise UsageError(f"{function.__name__} cannot be a handler: {problem}.", hint) from None
        own = name or function.__name__.strip("_").replace("_", "-").lower()
        if not _is_name(own):
            raise UsageError(
                f"{own!r} is not a valid name of a Trigger.", 'Give the handler a name: @on(..., name="orders").'
            )
        if own in registered:
            raise UsageError(
                f"Two handlers have the name {own}.", 'Give one handler another name: @on(..., name="orders").'
            )
        registered[own] = Registered(own, filter, retry, function)
        return function

    return register
