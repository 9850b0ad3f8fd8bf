"""Small charts as inline SVG. Pure. Colours come from the style sheet; the figure beside a chart says the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup


def sparkline(series: Sequence[float]) -> Markup:
    """Draws a rate over time as an area: one step to the right for each value, in hundredths of the height. The sides
    of the area are outside the picture, so that their lines do not show. Screen readers skip it."""
    most = max(series, default=0.0)
    if most <= 0:
        return _chart(1, "M-1 98h3")
    heights = [98 - round(96 * value / most) for value in series]
    steps = "".join(f" 1 {after - before}" for before, after in pairwise(heights))
    return _chart(len(heights) - 1, f"M-1 102V{heights[0]}h1l0 0{steps}h1V102")


def _chart(width: int, path: str) -> Markup:
    return Markup(
        '<svg class="spark" viewBox="0 0 {} 100" preserveAspectRatio="none" aria-hidden="true"><path d="{}"/></svg>'
    ).format(max(width, 1), path)
