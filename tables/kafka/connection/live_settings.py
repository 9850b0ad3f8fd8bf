"""How the clients of a process connect to Kafka, when that may change while it runs: a password, a certificate.

    present(kafka)                  the current settings, for a client that is made now
    present(kafka) is not used      they have been replaced since: the client must be made again

A thread that uses a client all the time asks between two calls to it, finishes what is under way, and makes another.
An owner of a client that is rarely used registers a callback instead: `on_replaced`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: Producers, and clients for administration, ask for the metadata of topics that they have used before. On a Kafka that
#: creates topics on demand, as Kafka does by default, they would bring removed ones back. Consumers do not by default.
CREATES_NO_TOPICS: Mapping[str, Any] = {"allow.auto.create.topics": False}


class LiveSettings(Mapping[str, Any]):
    """librdkafka client settings that are replaced as a whole. Thread-safe. To read several, use `present`."""

    def __init__(self) -> None:
        self.present: Mapping[str, Any] = {}
        self.called: list[weakref.WeakMethod[Callable[[], None]]] = []

    def replace(self, settings: Mapping[str, Any]) -> None:
        """Use these from now on. They must not change."""
        self.present = settings
        for reference in list(self.called):
            method = reference()
            if method is not None:
                method()

    def __getitem__(self, name: str) -> Any:
        return self.present[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.present)

    def __len__(self) -> int:
        return len(self.present)


def present(kafka: Mapping[str, Any]) -> Mapping[str, Any]:
    """The current settings: the same object until they are replaced."""
    return kafka.present if isinstance(kafka, LiveSettings) else kafka


def on_replaced(kafka: Mapping[str, Any], method: Callable[[], None]) -> None:
    """Call this bound method after each replacement, in the same thread. Its object is referenced weakly."""
    if isinstance(kafka, LiveSettings):
        kafka.called.append(weakref.WeakMethod(method, kafka.called.remove))
