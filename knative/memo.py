"""Tables of what clients choose, such as the names of their headers: bounded, so that nobody can fill the memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

#: A full table is cleared, so that common entries get back in after a flood of rare ones.
ENTRIES_MAX = 4096
#: Of a key: the longest URL path of a channel has 327. A full table of the longest has 2 MiB.
ENTRY_BYTES_MAX = 512
#: Lists of names, of which a client has few.
SHAPES_MAX, SHAPE_NAMES_MAX = 512, 48

_Text = TypeVar("_Text", str, bytes)
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def put(table: dict[_Key, _Value], key: _Key, value: _Value, entries_max: int = ENTRIES_MAX) -> None:
    """Add or replace an entry. The caller bounds the key."""
    if len(table) >= entries_max and key not in table:
        table.clear()
    table[key] = value


def remember(table: dict[_Text, _Value], key: _Text, value: _Value) -> None:
    """Add an entry, unless its key is too long."""
    if len(key) <= ENTRY_BYTES_MAX:
        put(table, key, value)


def remember_shape(table: dict[tuple[str, ...], _Value], names: tuple[str, ...], shape: _Value) -> None:
    """Add what follows from a list of names, unless it is too long."""
    if len(names) <= SHAPE_NAMES_MAX and sum(map(len, names)) <= 4 * ENTRY_BYTES_MAX:
        put(table, names, shape, SHAPES_MAX)
