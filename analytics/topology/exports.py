"""Writes the document for other programs: Mermaid and DOT as text, CSV, and Parquet.

Names may be arbitrary text (every sender chooses its source), so each format's own quoting is applied, and no cell can
be a spreadsheet formula. Only Mermaid leaves edges out, because its readers fail on large graphs.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from analytics.topology.model.document import (
    A_PART,
    Edge,
    Finding,
    Flow,
    Health,
    Kind,
    Topology,
    Totals,
    Vertex,
    without_types,
)

MERMAID_EDGES_MAX = 450  #: Mermaid's own limit is 500
LABEL_CHARS_MAX = 120

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHAPES = {
    Kind.SOURCE: ("([", "])", "ellipse"),
    Kind.CHANNEL: ("[(", ")]", "cylinder"),
    Kind.BROKER: ("[(", ")]", "cylinder"),
    Kind.SUBSCRIPTION: ("{{", "}}", "hexagon"),
    Kind.TRIGGER: ("{{", "}}", "hexagon"),
    Kind.DLQ: ("[(", ")]", "cylinder"),
}
_BOX = ("[", "]", "box")
_COLOURS = {Health.DEGRADED: "orange", Health.FAILED: "red", Health.IDLE: "grey", Health.UNKNOWN: "grey"}
_ARROWS = {Flow.REPLIES: "-. {} .->", Flow.DEAD_LETTERS: "-- {} --x"}


def plain(text: str) -> str:
    """Returns one line without control characters, not too long."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= LABEL_CHARS_MAX else f"{text[: LABEL_CHARS_MAX - 1]}\N{HORIZONTAL ELLIPSIS}"


def mermaid(topology: Topology) -> str:
    """Returns a flowchart. Above MERMAID_EDGES_MAX edges it has the busiest ones, and a comment says so."""
    topology = without_types(topology)
    edges: Sequence[Edge] = topology.edges
    lines = ["flowchart LR", *([f"  %% {A_PART}"] if topology.partial else [])]
    if len(edges) > MERMAID_EDGES_MAX:
        edges = sorted(edges, key=lambda edge: (-(edge.rate or 0.0), edge.id))[:MERMAID_EDGES_MAX]
        lines.append(f"  %% the {MERMAID_EDGES_MAX} busiest of {len(topology.edges)} connections")
    ends = {edge.source for edge in edges} | {edge.target for edge in edges}
    whole = len(edges) == len(topology.edges)
    names = {vertex.id: f"v{number}" for number, vertex in enumerate(topology.vertices) if whole or vertex.id in ends}
    for vertex in topology.vertices:
        if vertex.id in names:
            left, right, _ = _SHAPES.get(vertex.kind, _BOX)
            lines.append(f'  {names[vertex.id]}{left}"{_mermaid_text(vertex.label)}"{right}')
    for edge in edges:
        arrow = _ARROWS.get(edge.kind, "-- {} -->").format(f'"{edge.kind}{_rate(edge)}"')
        lines.append(f"  {names[edge.source]} {arrow} {names[edge.target]}")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Writes each character that could end a label or begin markup as an entity, with `#` for `&`, as Mermaid needs."""
    return "".join(
        character if character.isalnum() or character in " /:.-_" else f"#{ord(character)};"
        for character in plain(text)
    )


def dot(topology: Topology) -> str:
    """Returns a graph for Graphviz."""
    topology = without_types(topology)
    lines = ["digraph topology {", *([f"  comment={_dot_text(A_PART)};"] if topology.partial else [])]
    lines += ["  rankdir=LR;", '  node [fontname="sans-serif"];']
    for vertex in topology.vertices:
        shape = _SHAPES.get(vertex.kind, _BOX)[2]
        colour = f", color={_COLOURS[vertex.health]}" if vertex.health in _COLOURS else ""
        lines.append(f"  {_dot_text(vertex.id)} [label={_dot_text(plain(vertex.label))}, shape={shape}{colour}];")
    for edge in topology.edges:
        style = ", style=dashed" if edge.kind in _ARROWS else ""
        colour = f", color={_COLOURS[edge.health]}" if edge.health in _COLOURS else ""
        label = _dot_text(f"{edge.kind}{_rate(edge)}")
        lines.append(f"  {_dot_text(edge.source)} -> {_dot_text(edge.target)} [label={label}{style}{colour}];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_text(text: str) -> str:
    quoted = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _rate(edge: Edge) -> str:
    return f" {edge.rate:.3g}/s" if edge.rate else ""


#: Table -> its columns; `detail` is JSON.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "vertices": tuple(Vertex.__dataclass_fields__),
    "edges": tuple(Edge.__dataclass_fields__),
    "findings": tuple(Finding.__dataclass_fields__),
    "totals": tuple(Totals.__dataclass_fields__),
}


def rows(topology: Topology, table: str) -> Iterable[list[Any]]:
    """Yields rows of `vertices`, `edges`, `findings` or `totals`, in the order of COLUMNS: text, numbers and None."""
    for row in getattr(topology, table):
        yield [_cell(getattr(row, name)) for name in COLUMNS[table]]


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return orjson.dumps(value).decode() if value else ""
    if isinstance(value, tuple):
        return "\n".join(value)
    return str(value) if isinstance(value, str) else value


def csv_text(topology: Topology, table: str) -> str:
    """Returns CSV with a heading; several ids in one cell are on lines of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS[table])
    for row in rows(topology, table):
        writer.writerow([_harmless(cell) for cell in row])
    return text.getvalue()


def _harmless(cell: object) -> object:
    """Protects text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def write_parquet(topology: Topology, table: str, path: Path) -> None:
    """The same columns, as Parquet. The metadata of the schema says whether the document is `partial`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = dict.fromkeys(("lag", "island", "events", "failures", "channels", "subscriptions"), pa.int64())
    if table == "totals":
        numbers |= dict.fromkeys(COLUMNS[table][3:], pa.float64()) | {"lag": pa.int64()}
    numbers |= dict.fromkeys(("rate", "bytes_rate", "latency_p50_s", "latency_p99_s"), pa.float64())
    about = {"partial": A_PART} if topology.partial else None
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in COLUMNS[table]], about)
    cells = list(rows(topology, table))
    arrays = [pa.array([row[place] for row in cells], type=field.type) for place, field in enumerate(schema)]
    pq.write_table(pa.table(arrays, schema=schema), path)
