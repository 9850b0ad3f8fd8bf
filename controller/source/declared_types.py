"""Which event types people have declared for which channel or Broker: what the controller reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model import Key
from knative.contract.records import unique_name


def by_channel(declared: Iterable[tuple[Key | None, str]]) -> dict[str, tuple[str, ...]]:
    """Returns the sorted types of each channel or Broker, by its label. `declared`: key and type of each EventType."""
    types: dict[str, set[str]] = {}
    for key, type_ in declared:
        if key is not None:
            kind, namespace, name = key
            types.setdefault(f"{namespace}/{unique_name(kind, name)}", set()).add(type_)
    return {label: tuple(sorted(some)) for label, some in sorted(types.items())}
