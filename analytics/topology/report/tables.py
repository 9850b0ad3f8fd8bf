"""The facts as tables, for reading, sorting, printing and screen readers.

The page has the first ROWS_MAX rows of each table as HTML; with JavaScript the others come from the page's data. A cell
is text, a sort key and a link; the templates write the markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analytics.topology.compare import PARTIAL, Difference
from analytics.topology.event_types import readers_of, senders_of, takers, types_of
from analytics.topology.model.document import Flow, Ranking, Topology, Totals
from analytics.topology.model.figures import FIGURES, figure
from analytics.topology.report import words
from analytics.topology.report.pagegraph import Details, Item, Line, PageGraph, anchor
from knative import shown

ROWS_MAX = 300
_VERTICES_NOTE = (
    "Lag: events that are stored and not settled yet. The panel of the map shows values that do not fit into a cell."
)

Sortable = str | float


@dataclass(frozen=True, slots=True)
class Cell:
    """One fact. `link`: the fragment of a vertex, "" = none; `health` sets its colour."""

    text: str
    sort: Sortable = ""
    link: str = ""
    health: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; `numeric` columns are right-aligned and sort from the largest, `long` ones have text that wraps."""

    title: str
    numeric: bool = False
    long: bool = False

    @property
    def style(self) -> str:
        """The CSS class of its cells."""
        return "number" if self.numeric else "long" if self.long else ""


def _columns(*titles: str) -> tuple[Column, ...]:
    """Makes headings: a title with ` #` is that of a numeric column, one with ` …` that of a long one."""
    return tuple(Column(title.rstrip(" #…"), title.endswith(" #"), title.endswith(" …")) for title in titles)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of cells. `anchor` is the row's own id in the page, "" = none."""

    cells: tuple[Cell, ...]
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page. `name` is its id there; `of` counts all rows, including those that are only in the page's
    data, or left out."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    of: int


def tables(topology: Topology, graph: PageGraph, difference: Difference | None = None) -> list[Table]:
    """Returns all tables, in the order of the page. `difference`: to an earlier run."""
    labels = {
        vertex_id: (graph.items[place].label, graph.items[place].anchor) for vertex_id, place in graph.places.items()
    }
    return [
        *([] if difference is None else [_changes(difference, labels)]),
        _vertices(graph),
        _edges(graph),
        *_types(topology, labels),
        *_totals(topology.totals),
        *(_ranking(ranking, labels) for ranking in topology.rankings),
        *_reach(topology, labels),
        *_islands(topology, labels),
    ]


def _changes(difference: Difference, labels: Mapping[str, tuple[str, str]]) -> Table:
    """Returns what is new, what is gone, and what changed much; then the totals of the whole map."""
    columns = _columns("Where …", "What", "Before #", "After #")
    nothing = Cell(""), Cell("")
    findings = ("new", difference.findings_new), ("gone", difference.findings_gone)
    new, gone = (*difference.vertices_new, *difference.edges_new), (*difference.vertices_gone, *difference.edges_gone)
    rows = [
        Row(
            (
                Cell(shown.visible(finding.title)),
                Cell(f"{word} finding, {words.SEVERITIES[finding.severity]}"),
                *nothing,
            )
        )
        for word, some in findings
        for finding in some
    ]
    for word, ids in (("new", new), ("gone", gone)):
        rows += [Row((_vertex_link(id_, labels), Cell(word), *nothing)) for id_ in ids]
    for change in (*difference.changes, *sorted(difference.totals, key=lambda change: not change.id)):
        where = _vertex_link(change.id, labels) if change.id else Cell("all")
        cells = (_value(change.what, change.before), _value(change.what, change.after))
        rows.append(Row((where, Cell(FIGURES[change.what]), *cells)))
    note = (
        f"Since {shown.moment(difference.before)}. Rates, failures and latencies that grew or shrank by half or more."
    )
    if difference.partial:
        note += f" {PARTIAL}"
    return Table("changes", "Changes", note, columns, tuple(rows[:ROWS_MAX]), len(rows))


def _value(what: str, value: str | float | None) -> Cell:
    return Cell(figure(what, value), sort=-1.0 if value is None or isinstance(value, str) else float(value))


def _totals(parts: Sequence[Totals]) -> list[Table]:
    """Returns the table of totals by namespace, or no table if there is no namespace: then the head of the page says
    that the map is empty."""
    if len(parts) < 2:
        return []
    names = [name for name in Totals.__dataclass_fields__ if name != "namespace"]
    columns = (Column("Namespace"), *(Column(FIGURES[name].capitalize(), numeric=True) for name in names))
    rows = tuple(
        Row((Cell(shown.visible(part.namespace) or "all"), *(_value(name, getattr(part, name)) for name in names)))
        for part in parts[:ROWS_MAX]
    )
    note = "Fan-out: deliveries per accepted event. Bytes per event: delivered bytes per accepted event."
    return [Table("totals", "Totals and fan-out", note, columns, rows, len(parts))]


def _vertices(graph: PageGraph) -> Table:
    columns = _columns(
        "Name …", "Health …", "Kind", "Namespace", "Events/s #", "Bytes/s #", "Lag #", "Findings #", "Details …"
    )
    rows = tuple(Row(_vertex_cells(item, graph), item.anchor) for item in graph.items[:ROWS_MAX])
    return Table("vertices", "Vertices", _VERTICES_NOTE, columns, rows, len(graph.items))


def _vertex_cells(item: Item, graph: PageGraph) -> tuple[Cell, ...]:
    group = graph.groups[item.group]
    return (
        Cell(item.label, link=item.anchor),
        Cell(words.HEALTHS[item.health.value], health=item.health.value, note=item.message),
        Cell(words.KINDS[item.kind], note=", ".join(words.KINDS.get(role, role) for role in item.roles[1:])),
        Cell(group.label),
        _figure(item.rate, shown.rate(item.rate)),
        _figure(item.bytes_rate, shown.bytes_rate(item.bytes_rate)),
        _figure(item.lag, shown.count(item.lag)),
        _figure(len(item.findings), str(len(item.findings) or "")),
        Cell(_said(item.details)),
    )


def _edges(graph: PageGraph) -> Table:
    columns = _columns(
        "From …", "To …", "Health …", "Flow", "Events/s #", "Bytes/s #", "Lag #", "Failures #", "p50 #", "p99 #"
    )
    note = "p50 and p99: time from stored to delivered. Failures: attempts of deliveries, events of dead letters."
    # In the order of the source vertices, so the most important ones are first here too.
    ordered = sorted(graph.lines, key=lambda line: (line.source, line.target, line.kind))
    rows = tuple(Row(_edge_cells(line, graph)) for line in ordered[:ROWS_MAX])
    return Table("edges", "Connections", note, columns, rows, len(graph.lines))


def _edge_cells(line: Line, graph: PageGraph) -> tuple[Cell, ...]:
    source, target = graph.items[line.source], graph.items[line.target]
    many = f"{shown.count(line.stands_for)} connections" if line.stands_for > 1 else ""
    return (
        Cell(source.label, link=source.anchor),
        Cell(target.label, link=target.anchor),
        Cell(words.HEALTHS[line.health.value], health=line.health.value),
        Cell(words.FLOWS[line.kind], note=many),
        _figure(line.rate, shown.rate(line.rate)),
        _figure(line.bytes_rate, shown.bytes_rate(line.bytes_rate)),
        _figure(line.lag, shown.count(line.lag)),
        _figure(line.failures, shown.count(line.failures)),
        _figure(line.latency_p50_s, shown.seconds(line.latency_p50_s)),
        _figure(line.latency_p99_s, shown.seconds(line.latency_p99_s)),
    )


def _types(topology: Topology, labels: Mapping[str, tuple[str, str]]) -> list[Table]:
    carries = sorted(
        (edge for edge in topology.edges if edge.kind is Flow.CARRIES),
        key=lambda edge: (-(edge.rate or 0.0), edge.id),
    )
    if not carries:
        return []
    columns = _columns(
        "Type …", "Sent by …", "Channel …", "Events/s #", "Bytes/s #", "Taken by …", "If the filter lets it pass …"
    )
    types, readers, senders = types_of(topology), readers_of(topology), senders_of(topology)
    rows = []
    for edge in carries[:ROWS_MAX]:
        taking = takers(readers, types[edge.source], edge.target)
        sure, perhaps = ([id_ for id_ in sorted(taking) if taking[id_] is certain] for certain in (True, False))
        rows.append(
            Row(
                (
                    Cell(shown.visible(types[edge.source].label)),
                    _names(senders[edge.source], len(senders[edge.source]), labels),
                    _vertex_link(edge.target, labels),
                    _figure(edge.rate, shown.rate(edge.rate)),
                    _figure(edge.bytes_rate, shown.bytes_rate(edge.bytes_rate)),
                    _names(sure, len(sure), labels) if taking else Cell("no one"),
                    _names(perhaps, len(perhaps), labels),
                )
            )
        )
    note = (
        "What came to each channel, and the subscriptions whose filters accept all or some of these events. 'Sent by' "
        "counts all channels, the busiest first."
    )
    return [Table("types", "Event types", note, columns, tuple(rows), len(carries))]


def _figure(value: float | None, text: str) -> Cell:
    return Cell(text, sort=-1.0 if value is None else float(value))


def _said(details: Details) -> str:
    return " · ".join(f"{name} {value}" for name, value in details)


def _ranking(ranking: Ranking, labels: Mapping[str, tuple[str, str]]) -> Table:
    columns = (
        Column("Place", numeric=True),
        Column("Vertex", long=True),
        Column(shown.visible(ranking.unit, 40), numeric=True),
    )
    noted = any(row.note for row in ranking.rows)
    rows = tuple(
        Row(
            (
                Cell(str(place), float(-place)),
                _vertex_link(row.id, labels),
                Cell(shown.quantity(row.value), row.value),
                *((Cell(shown.visible(row.note)),) if noted else ()),
            )
        )
        for place, row in enumerate(ranking.rows[:ROWS_MAX], start=1)
    )
    name = f"ranking-{anchor(ranking.name)[2:]}"
    return Table(
        name,
        shown.visible(ranking.title, 120),
        "",
        (*columns, *((Column("Note", long=True),) if noted else ())),
        rows,
        len(ranking.rows),
    )


def _vertex_link(vertex_id: str, labels: Mapping[str, tuple[str, str]]) -> Cell:
    label, link = labels.get(vertex_id, (shown.visible(vertex_id), ""))
    return Cell(label, link=link)


def _names(ids: Iterable[str], size: int, labels: Mapping[str, tuple[str, str]]) -> Cell:
    names = [shown.visible(labels.get(vertex_id, (vertex_id, ""))[0], 60) for vertex_id in _first(ids)]
    more = f" and {shown.count(size - len(names))} more" if size > len(names) else ""
    return Cell(", ".join(names) + more)


def _first(ids: Iterable[str]) -> Sequence[str]:
    return [vertex_id for _, vertex_id in zip(range(6), ids, strict=False)]


def _reach(topology: Topology, labels: Mapping[str, tuple[str, str]]) -> list[Table]:
    if not topology.reach:
        return []
    columns = _columns("Source …", "Reaches #", "Hops #", "Nearest …")
    ordered = sorted(topology.reach, key=lambda reach: (-reach.reached, reach.source))
    rows = tuple(
        Row(
            (
                _vertex_link(reach.source, labels),
                Cell(shown.plural(reach.reached, "vertex", "vertices"), float(reach.reached)),
                Cell(str(reach.hops_max), float(reach.hops_max)),
                _names(reach.hops, reach.reached, labels),
            )
        )
        for reach in ordered[:ROWS_MAX]
    )
    note = "Everything that an event of the source can reach, and the largest number of connections to it."
    return [Table("reach", "What sources reach", note, columns, rows, len(ordered))]


def _islands(topology: Topology, labels: Mapping[str, tuple[str, str]]) -> list[Table]:
    if len(topology.islands) < 2:
        return []
    columns = _columns("Island #", "Vertices #", "Channels #", "Events/s #", "Members …")
    rows = tuple(
        Row(
            (
                Cell(str(island.number), float(-island.number)),
                _figure(island.size, shown.count(island.size)),
                _figure(island.channels, shown.count(island.channels)),
                _figure(island.rate, shown.rate(island.rate)),
                _names(island.members, island.size, labels),
            )
        )
        for island in topology.islands[:ROWS_MAX]
    )
    note = "Parts of the topology that are not connected to each other."
    return [Table("islands", "Islands", note, columns, rows, len(topology.islands))]
