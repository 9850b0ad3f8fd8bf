"""Layered drawing of a directed graph, first half: loops opened, columns assigned, long edges cut into steps.

    box --link--> box          columns:   0        1       2        3       4
                                        [box] --label--> [box] --label--> [box]

Boxes are in even columns, labels of links in odd ones, so that a label has a place of its own and covers nothing. A
link that would run backwards is turned, for the drawing only. Deterministic: equal input gives an equal picture. Meant
for some hundreds of boxes at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from analytics.topology.report.style import STYLE


@dataclass(frozen=True, slots=True)
class Box:
    """A box to draw. `swimlane` is the horizontal band that it must stay in, 0 at the top."""

    width: float
    height: float
    swimlane: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow between two boxes, by their numbers; `label_width` 0 = it has no label."""

    source: int
    target: int
    label_width: float = 0.0


@dataclass(slots=True)
class Cell:
    """Something that needs room in a column: a box, or a step of a link on its way through it."""

    column: int
    swimlane: int
    width: float
    height: float
    box: int = -1  #: number of the box, or -1
    link: int = -1  #: number of the link that passes here, or -1
    label: bool = False  #: the label of the link is here
    y: float = 0.0


@dataclass(slots=True)
class Layers:
    """Cells by column, with the steps between neighbouring columns."""

    cells: list[Cell]
    columns: list[list[int]]  #: numbers of cells, from the top
    right: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  #: cell -> cells of the next column
    left: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    paths: list[list[int]] = field(default_factory=list)  #: of each link: its cells from left to right; [] = a loop
    turned: list[bool] = field(default_factory=list)  #: of each link: it runs from right to left


def layer(boxes: Sequence[Box], links: Sequence[Link]) -> Layers:
    """Columns for the boxes and cells for the links, in a first order: by swimlane, then as given."""
    turned = _turned(len(boxes), links)
    arcs = [
        (one.target, one.source) if back else (one.source, one.target)
        for one, back in zip(links, turned, strict=True)
        if one.source != one.target
    ]
    ranks = _ranks(len(boxes), arcs)
    # Even columns only: the odd ones are for labels and steps.
    cells = [
        Cell(2 * rank, box.swimlane, box.width, box.height, box=place)
        for place, (box, rank) in enumerate(zip(boxes, ranks, strict=True))
    ]
    layers = Layers(cells, [[] for _ in range(2 * max(ranks, default=0) + 1)], turned=turned)
    for place, link in enumerate(links):
        layers.paths.append(_path(place, link, turned[place], cells))
    for path in layers.paths:
        for one, other in pairwise(path):
            layers.right[one].append(other)
            layers.left[other].append(one)
    for place, cell in enumerate(cells):
        layers.columns[cell.column].append(place)
    for column in layers.columns:
        column.sort(key=lambda place: (cells[place].swimlane, place))
    return layers


def _path(place: int, link: Link, turned: bool, cells: list[Cell]) -> list[int]:
    """Create the cells of a link, one in every column between its ends."""
    if link.source == link.target:
        return []
    first, last = (link.target, link.source) if turned else (link.source, link.target)
    path = [first]
    # The label is next to the box that the arrow leaves.
    labelled = cells[last].column - 1 if turned else cells[first].column + 1
    for column in range(cells[first].column + 1, cells[last].column):
        label = column == labelled and link.label_width > 0
        # Near its right end, a link is in the swimlane of its target, so that it changes swimlanes only once.
        swimlane = cells[last].swimlane if column == cells[last].column - 1 and not label else cells[first].swimlane
        size = (link.label_width, STYLE.label_height) if label else (0.0, STYLE.step_height)
        path.append(len(cells))
        cells.append(Cell(column, swimlane, *size, link=place, label=label))
    path.append(last)
    return path


def _turned(count: int, links: Sequence[Link]) -> list[bool]:
    """Which links close a loop: those to a box that the depth-first walk has entered and not yet left."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for place, link in enumerate(links):
        if link.source != link.target:
            leaving[link.source].append(place)
            entered[link.target] += 1
    turned = [False] * len(links)
    state = [0] * count  # 0 not seen, 1 inside, 2 done
    # Begin at boxes without incoming links: then the links that are turned are the ones that lead back, and the drawing
    # follows the direction of the events.
    for start in sorted(range(count), key=lambda box: (entered[box] > 0, box)):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(leaving[start]))]
        while stack:
            box, rest = stack[-1]
            for place in rest:
                other = links[place].target
                if state[other] == 1:
                    turned[place] = True
                elif state[other] == 0:
                    state[other] = 1
                    stack.append((other, iter(leaving[other])))
                    break
            else:
                state[box] = 2
                stack.pop()
    return turned


def _ranks(count: int, arcs: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from the left; then boxes that only send move next to the nearest box that they send to."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for one, other in arcs:
        after[one].append(other)
        waiting[other] += 1
    entered = list(waiting)
    ranks = [0] * count
    ready = [box for box in range(count) if waiting[box] == 0]
    for box in ready:  # grows during the loop
        for other in after[box]:
            ranks[other] = max(ranks[other], ranks[box] + 1)
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    # A sender is always in column 0 at first, and its links could be long. Nothing leads to it, so it can move right.
    for box in range(count):
        if entered[box] == 0 and after[box]:
            ranks[box] = min(ranks[other] for other in after[box]) - 1
    return ranks
