"""A Faust app that keeps everything in memory and in Kafka: it makes no folder on disk.

Faust makes three for each start, for tables of a store that nothing here uses; they stayed behind in the temporary
folder of the machine. Refuses to do anything else differently.
"""

from __future__ import annotations

import faust


class MemoryApp(faust.App):
    """For apps with `store="memory://"`."""

    def _create_directories(self) -> None:
        """Nothing would ever be in them."""
