"""The map as a still picture, for the printed page and for browsers without JavaScript.

    PageGraph --cast--> boxes and arrows (vertices in swimlanes by namespace, or whole namespaces when there are many)
              --arrange--> Picture, ready for templates/picture.svg.j2

Draws no more than is readable; the tables have the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analytics.topology.model.document import SEVERITIES, Health
from analytics.topology.model.totals import total
from analytics.topology.report import words
from analytics.topology.report.icons import ICONS
from analytics.topology.report.layers import Box, Link
from analytics.topology.report.pagegraph import HEALTHS, Item, Line, PageGraph, worst
from analytics.topology.report.placing import Arrangement, Point, Route, arrange
from analytics.topology.report.style import STYLE

BOXES_MAX = 90  #: vertices as themselves; above this, namespaces are drawn
ARROWS_MAX = 220
GROUPS_MAX = 36
FLOWS_MAX = 40  #: arrows between namespaces
LABELS_MAX = 60


@dataclass(frozen=True, slots=True)
class Shape:
    """A box with its position."""

    x: float  #: left
    y: float  #: top
    width: float
    height: float
    name: str
    caption: str
    icon: str  #: a path in a square of 16
    health: str
    tip: str
    anchor: str
    severity: str  #: severity of the worst finding, "" = none


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line with its label."""

    path: str
    kind: str
    health: str
    width: float
    label: str
    x: float
    y: float
    label_width: float


@dataclass(frozen=True, slots=True)
class Swimlane:
    """A band with a title."""

    title: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw. `note` says what is left out."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    arrows: tuple[Arrow, ...]
    swimlanes: tuple[Swimlane, ...]
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that becomes a box."""

    name: str
    caption: str
    icon: str
    health: Health
    tip: str
    anchor: str
    severity: str = ""
    swimlane: int = 0


def picture(graph: PageGraph) -> Picture:
    """Draw the whole graph, or its namespaces if it is too large to be readable."""
    total_size = sum(group.size for group in graph.groups)
    if len(graph.items) <= BOXES_MAX and len(graph.lines) <= ARROWS_MAX:
        joined = words.plural(len(graph.lines), "connection")
        title = f"Map of {words.plural(total_size, 'vertex', 'vertices')} and {joined}"
        return _drawn(*_vertices(graph), [group.label for group in graph.groups], title, "")
    parts, lines, left = _groups(graph)
    note = f"{words.count(total_size)} vertices are grouped by namespace; the tables list each of them."
    if left:
        note += f" {words.plural(left, 'namespace')} of least importance are drawn as one."
    if len(lines) > FLOWS_MAX:
        note += f" Of {words.count(len(lines))} flows between them, the {FLOWS_MAX} busiest are drawn."
    return _drawn(parts, lines[:FLOWS_MAX], [], f"Map of {words.plural(len(graph.groups), 'namespace')}", note)


def text_width(text: str, size_px: float) -> float:
    """Estimated width of a text: rather too wide, so that it does not leave its box in any common font."""
    return size_px * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if letter in "iljtfrI.,:;'|!/()[]- ":
        return 0.40
    if letter in "mwMW@%—…":
        return 0.98
    if letter > "\u2e7f":
        return 1.05
    return 0.70 if letter.isupper() else 0.63


def _vertices(graph: PageGraph) -> tuple[list[_Part], list[Line]]:
    parts = [
        _Part(
            item.short,
            _caption(item),
            ICONS[item.kind],
            item.health,
            f"{item.label}: {words.KINDS[item.kind]}, {words.HEALTHS[item.health]}",
            item.anchor,
            item.severity.value if item.severity else "",
            item.group,
        )
        for item in graph.items
    ]
    # Sort by traffic: then the main flow decides where loops are opened and which swimlane is first.
    return parts, sorted(graph.lines, key=lambda one: (-(one.rate or 0.0), one.source, one.target, one.kind))


def _caption(item: Item) -> str:
    """The kind, and the one figure or word that matters most."""
    kind = words.KINDS[item.kind]
    if item.health in (Health.FAILED, Health.DEGRADED):
        return f"{kind} · {words.HEALTHS[item.health]}"
    if item.lag:
        return f"{kind} · lag {words.quantity(item.lag)}"
    return kind if item.rate is None else f"{kind} · {words.rate(item.rate)}"


def _groups(graph: PageGraph) -> tuple[list[_Part], list[Line], int]:
    """Namespaces as boxes, and the events between them as arrows; the least important ones share a box."""
    members: dict[int, list[Item]] = defaultdict(list)
    for item in graph.items:
        members[item.group].append(item)

    def importance(group: int) -> tuple[float, ...]:
        found = Counter(item.severity for item in members[group] if item.severity)
        flow = sum(item.rate or 0.0 for item in members[group])
        return (*(-found[severity] for severity in SEVERITIES[:2]), -flow, group)

    ordered = sorted(range(len(graph.groups)), key=importance)
    shown = ordered if len(ordered) <= GROUPS_MAX else ordered[: GROUPS_MAX - 1]
    left = ordered[len(shown) :]
    places = {group: place for place, group in enumerate(shown)}
    places.update(dict.fromkeys(left, len(shown)))
    parts = [_group_part(graph, [group], members, graph.groups[group].label) for group in shown]
    if left:
        parts.append(_group_part(graph, left, members, f"{words.count(len(left))} other namespaces"))
    ends = [places[item.group] for item in graph.items]
    sums: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in graph.lines:
        if ends[line.source] != ends[line.target]:
            sums[ends[line.source], ends[line.target]].append(line)
    lines = [
        Line(one, other, "sum", worst(line.health for line in some), total(line.rate for line in some))
        for (one, other), some in sums.items()
    ]
    lines.sort(key=lambda one: (-(one.rate or 0.0), one.source, one.target))
    return parts, lines, len(left)


def _group_part(graph: PageGraph, groups: Sequence[int], members: Mapping[int, list[Item]], label: str) -> _Part:
    size = sum(graph.groups[group].size for group in groups)
    found = len({place for group in groups for item in members[group] for place in item.findings})
    caption = words.plural(size, "vertex", "vertices")
    if found:
        caption += f" · {words.plural(found, 'finding')}"
    health = worst(item.health for group in groups for item in members[group])
    severities = {item.severity for group in groups for item in members[group]}
    severity = next((one.value for one in SEVERITIES if one in severities), "")
    tip = f"{label}: {caption}, worst health {words.HEALTHS[health]}"
    return _Part(words.short(label), caption, ICONS["group"], health, tip, "table-vertices", severity)


def _drawn(parts: Sequence[_Part], lines: Sequence[Line], swimlanes: Sequence[str], title: str, note: str) -> Picture:
    labelled = {place for place, line in enumerate(lines) if line.rate and place < LABELS_MAX}
    labels = [words.rate(line.rate) if place in labelled else "" for place, line in enumerate(lines)]
    widths = [_box_width(part) for part in parts]
    joined = {end for line in lines for end in (line.source, line.target)}
    drawn = [place for place in range(len(parts)) if swimlanes or place in joined]
    numbers = {place: number for number, place in enumerate(drawn)}
    links = [
        Link(numbers[line.source], numbers[line.target], text_width(label, STYLE.caption) + 10 if label else 0.0)
        for line, label in zip(lines, labels, strict=True)
    ]
    boxes = [Box(widths[place], STYLE.height, parts[place].swimlane) for place in drawn]
    arrangement = arrange(boxes, links)
    shapes = [_shape(parts[place], widths[place], arrangement.boxes[number]) for place, number in numbers.items()]
    single = [place for place in range(len(parts)) if place not in numbers]
    width, height = _grid(parts, single, widths, arrangement, shapes)
    arrows = [
        _arrow(line, label, route, links[place])
        for place, (line, label, route) in enumerate(zip(lines, labels, arrangement.routes, strict=True))
    ]
    bands = tuple(
        Swimlane(name, top, bottom - top)
        for name, (top, bottom) in zip(swimlanes, arrangement.swimlanes, strict=False)
        if swimlanes
    )
    return Picture(width, height, tuple(shapes), tuple(arrows), bands, title, note)


def _box_width(part: _Part) -> float:
    text = max(text_width(part.name, STYLE.name), text_width(part.caption, STYLE.caption))
    dot = 10.0 if part.severity else 0.0
    return round(min(max(text + dot + STYLE.beside_text, STYLE.least_width), STYLE.most_width), 1)


def _shape(part: _Part, width: float, middle: Point) -> Shape:
    x, y = round(middle[0] - width / 2, 1), round(middle[1] - STYLE.height / 2, 1)
    return Shape(
        x,
        y,
        width,
        STYLE.height,
        part.name,
        part.caption,
        part.icon,
        part.health.value,
        part.tip,
        part.anchor,
        part.severity,
    )


def _grid(
    parts: Sequence[_Part],
    single: Iterable[int],
    widths: Sequence[float],
    arrangement: Arrangement,
    shapes: list[Shape],
) -> tuple[float, float]:
    """Put boxes without arrows in rows below the others; returns width and height of the whole."""
    left = 18.0
    x, y = left, arrangement.height + (STYLE.grid_gap if arrangement.boxes else STYLE.margin)
    width, bottom = (arrangement.width if arrangement.boxes else 0.0), arrangement.height
    for place in single:
        if x > left and x + widths[place] > max(STYLE.row_width, arrangement.width):
            x, y = left, y + STYLE.height + STYLE.grid_gap
        shapes.append(_shape(parts[place], widths[place], (x + widths[place] / 2, y + STYLE.height / 2)))
        x += widths[place] + STYLE.grid_gap
        width, bottom = max(width, x), y + STYLE.height + STYLE.margin
    return round(max(width, 320.0), 1), round(max(bottom, 80.0), 1)


def _arrow(line: Line, label: str, route: Route, link: Link) -> Arrow:
    idle = line.rate == 0 or line.health is Health.IDLE
    health = Health.IDLE if idle and line.health in HEALTHS[2:] else line.health
    x, y = route.label or route.points[0]
    flow = line.rate or 0.0
    colour = "critical" if line.loop else health.value
    width = 1.0 if flow <= 0 else min(1.2 + 0.45 * len(f"{flow:.0f}"), 3.4)
    return Arrow(
        _curve(route),
        line.kind,
        colour,
        round(width, 2),
        label,
        round(x, 1),
        round(y, 1),
        link.label_width,
    )


def _curve(route: Route) -> str:
    """An SVG path through the points, horizontal at each of them."""
    (x, y), *rest = route.points
    if len(route.points) == 2 and route.points[0] == route.points[1]:
        return f"M{x - 18:.1f} {y - 20:.1f}c-14 -26 50 -26 36 0"
    path = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        if abs(ny - y) < 0.05:
            path.append(f"H{nx:.1f}")
        else:
            half = (nx - x) / 2
            path.append(f"C{x + half:.1f} {y:.1f} {nx - half:.1f} {ny:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(path)
