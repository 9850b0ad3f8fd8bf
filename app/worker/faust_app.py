"""A Faust app that keeps everything in memory and in Kafka, and creates no folders.

Faust creates three at each start, for tables in a store that Penstock does not use, and leaves them in the temporary
folder of the machine.
"""

from __future__ import annotations

import faust


class MemoryApp(faust.App):
    """Base class of apps with `store="memory://"`."""

    def _create_directories(self) -> None:
        """Create none: they would stay empty."""
