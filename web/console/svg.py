"""Small charts as inline SVG. Pure. Colours come from the style sheet; the figure beside a chart says the same."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup


def sparkline(series: Sequence[float], width: int = 120, height: int = 24) -> Markup:
    """The course of a rate, as an area. Screen readers skip it."""
    most = max(series, default=0.0)
    if most <= 0:
        return Markup(
            '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">'
            '<path class="line" d="M0 {}H{}"/></svg>'
        ).format(width, height, height - 1, width)
    step = width / max(len(series) - 1, 1)
    points = [
        f"{place * step:.1f} {height - 1 - value / most * (height - 3):.1f}" for place, value in enumerate(series)
    ]
    line = "L".join(points)
    return Markup(
        '<svg class="spark" viewBox="0 0 {0} {1}" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="area" d="M0 {1}L{2}L{0} {1}Z"/><path class="line" d="M{2}"/></svg>'
    ).format(width, height, line)
