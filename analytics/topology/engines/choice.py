"""Selects the engine when the user did not: the local one, up to the size that it is known to handle.

Ten million edges of a fleet of sources take it half a minute of CPU and 1.4 GiB, with the document. GraphFrames takes
minutes for a tenth of these, and a Spark session of gigabytes.
"""

from __future__ import annotations

from enum import StrEnum

LOCAL_EDGES_MAX = 10_000_000


class EngineChoice(StrEnum):
    """The values of `--engine`."""

    AUTO = "auto"
    LOCAL = "local"
    GRAPHFRAMES = "graphframes"


def choose(wish: EngineChoice, edges: int, why_not: str | None) -> tuple[EngineChoice, str | None]:
    """Returns the engine, and why (None: the user chose it). `why_not`: why GraphFrames cannot run; None: it can."""
    if wish is not EngineChoice.AUTO:
        return wish, None
    if edges <= LOCAL_EDGES_MAX:
        return EngineChoice.LOCAL, f"The local engine walked {edges} edges; it is used for up to {LOCAL_EDGES_MAX}."
    if why_not is not None:
        return EngineChoice.LOCAL, f"The local engine walked {edges} edges, because GraphFrames cannot: {why_not}"
    return (
        EngineChoice.GRAPHFRAMES,
        f"GraphFrames walked {edges} edges; the local engine is used for up to {LOCAL_EDGES_MAX}.",
    )
