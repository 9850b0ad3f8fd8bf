"""Penstock's Python API: send CloudEvents, take them, and test what takes them.

    from penstock import Client

    with Client.channel("http://localhost:8080", "default/quickstart") as client:
        client.send(type="order.created", source="/shop", data={"amount": 120})

`Client` sends, `Subscriber` takes events, `penstock.testing` is a broker in memory for unit tests, `penstock.cesql`
compiles expressions of filters. Nothing is loaded before it is used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in typing, whose import takes longer than that of all the rest here
if TYPE_CHECKING:
    from typing import Any

    from penstock import cesql, testing
    from penstock.client import Client, NoAnswerError, NotStoredError, Stored
    from penstock.events import event
    from penstock.handlers import on
    from penstock.subscriber import Reject, Retry, Subscriber

__all__ = [
    "Client",
    "NoAnswerError",
    "NotStoredError",
    "Reject",
    "Retry",
    "Stored",
    "Subscriber",
    "cesql",
    "event",
    "on",
    "testing",
]

_PLACES = {
    **dict.fromkeys(("Client", "NoAnswerError", "NotStoredError", "Stored"), "penstock.client"),
    **dict.fromkeys(("Reject", "Retry", "Subscriber"), "penstock.subscriber"),
    "event": "penstock.events",
    "on": "penstock.handlers",
}


def __getattr__(name: str) -> Any:
    if name in ("cesql", "testing"):
        return importlib.import_module(f"penstock.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value  # later accesses do not come here again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
