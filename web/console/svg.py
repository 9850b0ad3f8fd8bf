"""Small charts as inline SVG. Pure. Colours come from the style sheet; the figure beside a chart says the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup


def sparkline(series: Sequence[float]) -> Markup:
    """The course of a rate, as an area: a step to the right for each value, in hundredths of the height. Screen readers
    skip it."""
    most = max(series, default=0.0)
    if most <= 0:
        return _chart(1, "", "M0 98h1")
    heights = [98 - round(96 * value / most) for value in series]
    line = f"M0 {heights[0]}" + "".join(f"l1 {after - before}" for before, after in pairwise(heights))
    return _chart(len(heights) - 1, f"{line}V100H0Z", line)


def _chart(width: int, area: str, line: str) -> Markup:
    return Markup(
        '<svg class="spark" viewBox="0 0 {} 100" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="area" d="{}"/><path class="line" d="{}"/></svg>'
    ).format(max(width, 1), area, line)
