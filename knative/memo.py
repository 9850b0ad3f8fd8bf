"""Tables of what clients choose, such as the names of their headers: bounded, so that nobody can fill the memory."""

from __future__ import annotations

from typing import TypeVar

#: A full table is cleared, so that common entries get back in after a flood of rare ones.
ENTRIES_MAX = 4096
#: Of a key: the longest URL path of a channel has 327. A full table of the longest has 2 MiB.
ENTRY_BYTES_MAX = 512
#: Lists of names, of which a client has few.
SHAPES_MAX, SHAPE_NAMES_MAX = 512, 48

_Text = TypeVar("_Text", str, bytes)
_Value = TypeVar("_Value")


def remember(table: dict[_Text, _Value], key: _Text, value: _Value) -> None:
    """Add an entry, unless its key is too long."""
    if len(key) <= ENTRY_BYTES_MAX:
        if len(table) >= ENTRIES_MAX:
            table.clear()
        table[key] = value


def remember_shape(table: dict[tuple[str, ...], _Value], names: tuple[str, ...], shape: _Value) -> None:
    """Add what follows from a list of names, unless it is too long."""
    if len(names) <= SHAPE_NAMES_MAX and sum(map(len, names)) <= 4 * ENTRY_BYTES_MAX:
        if len(table) >= SHAPES_MAX:
            table.clear()
        table[names] = shape
