"""A value that others follow: they are called after each change of it."""

from __future__ import annotations

from collections.abc import Callable


class Followed:
    """Event loop only."""

    def __init__(self) -> None:
        self._changed: set[Callable[[], None]] = set()

    def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change."""
        self._changed.add(changed)

    def unfollow(self, changed: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._changed.discard(changed)

    def _has_changed(self) -> None:
        for changed in tuple(self._changed):
            changed()
