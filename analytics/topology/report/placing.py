"""Layered drawing of a directed graph, second half: the order within columns, then the coordinates.

Order: several sweeps sort each column by the mean position of its neighbours; the order with the fewest crossings is
kept. Coordinates: each cell moves to the mean of its neighbours, as far as the cells above and below allow (an isotonic
regression, which pool-adjacent-violators solves exactly). Swimlanes never mix.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analytics.topology.report.layers import Box, Cell, Layers, Link, layer
from analytics.topology.report.style import STYLE

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Route:
    """The path of a link from its source to its target, and the middle of its label. Two equal ends: its own box."""

    points: tuple[Point, ...]
    label: Point | None
    turned: bool


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All coordinates. `boxes`: middles; `swimlanes`: top and bottom."""

    width: float
    height: float
    boxes: tuple[Point, ...]
    routes: tuple[Route, ...]
    swimlanes: tuple[tuple[float, float], ...]


def arrange(boxes: Sequence[Box], links: Sequence[Link]) -> Arrangement:
    """Arrange the graph from left to right."""
    layers = layer(boxes, links)
    _order(layers)
    swimlanes = _swimlanes(layers, 1 + max((box.swimlane for box in boxes), default=-1))
    _settle(layers, swimlanes)
    widths = [max((layers.cells[one].width for one in column), default=0.0) for column in layers.columns]
    middles = _middles(widths)
    cells = layers.cells
    points = [(middles[cell.column], cell.y) for cell in cells]
    routes = tuple(
        _route(link, path, back, layers, points, widths)
        for link, path, back in zip(links, layers.paths, layers.turned, strict=True)
    )
    width = middles[-1] + widths[-1] / 2 + STYLE.margin
    bottom = swimlanes[-1][1] if swimlanes else 0.0
    return Arrangement(width, bottom, tuple(points[: len(boxes)]), routes, tuple(swimlanes))


def _route(
    link: Link, path: Sequence[int], back: bool, layers: Layers, points: Sequence[Point], widths: Sequence[float]
) -> Route:
    if not path:
        middle = points[link.source]
        return Route((middle, middle), None, False)
    cells = layers.cells
    label = next((points[one] for one in path if cells[one].label), None)
    run = []
    for place, one in enumerate(path):
        half = cells[one].width / 2
        x, y = points[one]
        if place == 0:
            run.append((x + half, y))
        elif place == len(path) - 1:
            run.append((x - half, y))
        else:  # horizontal along its label, and between the boxes of a column
            half = half if cells[one].label else widths[cells[one].column] / 2
            run += [(x - half, y), (x + half, y)] if half else [(x, y)]
    return Route(tuple(reversed(run) if back else run), label, back)


def _order(layers: Layers) -> None:
    """Sort the columns so that few steps cross."""
    best, fewest = [list(column) for column in layers.columns], _crossings(layers)
    for sweep in range(16):
        if fewest == 0:
            break
        forward = sweep % 2 == 0
        numbers = range(1, len(layers.columns)) if forward else range(len(layers.columns) - 2, -1, -1)
        # Each sweep uses one side only, alternately left and right, as the other side is about to move.
        for number in numbers:
            _sort(layers, number, forward)
        crossings = _crossings(layers)
        # A sweep may make it worse, and later ones better again: keep the best order, not the last.
        if crossings < fewest:
            best, fewest = [list(column) for column in layers.columns], crossings
    layers.columns[:] = best


def _sort(layers: Layers, number: int, forward: bool) -> None:
    column, other = layers.columns[number], layers.columns[number - 1 if forward else number + 1]
    steps = layers.left if forward else layers.right
    # Relative positions, because columns differ in length.
    places = {cell: place / max(len(other) - 1, 1) for place, cell in enumerate(other)}
    now = {cell: place / max(len(column) - 1, 1) for place, cell in enumerate(column)}

    def wanted(cell: int) -> float:
        near = [places[one] for one in steps.get(cell, ())]
        return sum(near) / len(near) if near else now[cell]

    column.sort(key=lambda cell: (layers.cells[cell].swimlane, wanted(cell), now[cell]))


def _crossings(layers: Layers) -> int:
    """The number of pairs of steps that cross, over all columns."""
    crossings = 0
    for column, following in pairwise(layers.columns):
        places = {cell: place for place, cell in enumerate(following)}
        seen: list[int] = []
        # From the top down: a step crosses each earlier step that ends below it.
        for cell in column:
            ends = sorted(places[one] for one in layers.right.get(cell, ()))
            crossings += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return crossings


def _swimlanes(layers: Layers, count: int) -> list[tuple[float, float]]:
    """Top and bottom of each swimlane, high enough for its fullest column."""
    heights = [0.0] * count
    for column in layers.columns:
        full = [0.0] * count
        for one in column:
            cell = layers.cells[one]
            full[cell.swimlane] += cell.height + STYLE.gap_y
        heights = [max(pair) for pair in zip(heights, full, strict=True)]
    swimlanes, top = [], 0.0
    for height in heights:
        bottom = top + STYLE.swimlane_head + height + STYLE.swimlane_foot - STYLE.gap_y
        swimlanes.append((top, bottom))
        top = bottom + STYLE.swimlane_gap
    return swimlanes


def _settle(layers: Layers, swimlanes: Sequence[tuple[float, float]]) -> None:
    """Compute the y of every cell."""
    for column in layers.columns:
        _spread(column, layers, swimlanes, dict.fromkeys(column, 0.0))
    # As in `_order`, pulls alternate between the sides. The last ones use both, so that boxes end between their
    # neighbours and not level with one side only.
    for pull in range(pulls := 24):
        last = pull >= pulls - 4
        forward = pull % 2 == 0
        for column in layers.columns if forward else reversed(layers.columns):
            wanted = {}
            for one in column:
                before, after = layers.left.get(one, []), layers.right.get(one, [])
                near = before + after if last else (before if forward else after) or before + after
                ys = [layers.cells[other].y for other in near]
                wanted[one] = sum(ys) / len(ys) if ys else layers.cells[one].y
            _spread(column, layers, swimlanes, wanted)


def _spread(
    column: Sequence[int], layers: Layers, swimlanes: Sequence[tuple[float, float]], wanted: dict[int, float]
) -> None:
    """Move the cells of a column as near to their wanted y as order, distance and swimlanes allow."""
    by_swimlane: dict[int, list[int]] = {}
    for one in column:
        by_swimlane.setdefault(layers.cells[one].swimlane, []).append(one)
    for swimlane, members in by_swimlane.items():
        # Subtract from each wanted y the heights above it. "No overlap" then means only "never decreasing".
        offsets, height = [], 0.0
        for one in members:
            size = layers.cells[one].height
            offsets.append(height + size / 2)
            height += size + STYLE.gap_y
        low = swimlanes[swimlane][0] + STYLE.swimlane_head
        high = swimlanes[swimlane][1] - STYLE.swimlane_foot + STYLE.gap_y - height
        weights = [_weight(layers.cells[one]) for one in members]
        fitted = _isotonic([wanted[one] - offset for one, offset in zip(members, offsets, strict=True)], weights)
        for one, offset, value in zip(members, offsets, fitted, strict=True):
            layers.cells[one].y = min(max(value, low), max(high, low)) + offset


def _weight(cell: Cell) -> float:
    """Steps pull more than boxes, which keeps long links straight."""
    return 1.0 if cell.box >= 0 else 2.0


def _isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` (least squares): merges neighbours that violate the order."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of values
    for value, weight in zip(values, weights, strict=True):
        mean, heavy, many = value, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_weight, other_many = pools.pop()
            mean = (mean * heavy + other * other_weight) / (heavy + other_weight)
            heavy += other_weight
            many += other_many
        pools.append((mean, heavy, many))
    return [mean for mean, _, many in pools for _ in range(many)]


def _middles(widths: Sequence[float]) -> list[float]:
    """The x of each column."""
    middles, left = [], STYLE.margin
    for number, width in enumerate(widths):
        middles.append(left + width / 2)
        left += width + STYLE.gap_x
        if number % 2 and width == 0.0:  # only steps: the curves need less room
            left += STYLE.gap_x / 2
    return middles
