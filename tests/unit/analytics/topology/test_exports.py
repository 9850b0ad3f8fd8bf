"""Pictures, tables and the comparison of two runs: complete, and harmless whatever a source is called."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analytics.topology.compare import compare
from analytics.topology.exports import COLUMNS, MERMAID_EDGES_MAX, csv_text, dot, mermaid, write_parquet
from analytics.topology.formats.asyncapi import asyncapi
from analytics.topology.formats.backstage import backstage
from analytics.topology.formats.graphml import graphml
from analytics.topology.model.document import A_PART, Kind, Topology, Vertex
from analytics.topology.model.sums import Summing
from analytics.traffic.windows import Window
from app.cli.output.topology import show_difference, show_topology
from app.cli.topology import Shape, finish
from app.operations.topology.reading import TopologyQuery
from knative.traffic.counts import Counts
from knative.traffic.delta import Delta
from tests.support.topologies import HOSTILE_SOURCE, large, small


def hostile() -> Topology:
    """With sources that mean something in one of the formats."""
    names = ("=cmd|' /C calc'!A0", 'a"]; click v0 "javascript:x"', "a\nb\x1b[31m", '"; } digraph {', "`'\\", "%%{init}")
    vertices = [Vertex(f"source:{name}", Kind.SOURCE, "", name, name) for name in names]
    return replace(small(), vertices=(*small().vertices, *vertices))


def test_mermaid_has_every_vertex_and_nothing_that_could_be_markup() -> None:
    lines = mermaid(hostile()).splitlines()

    assert len(lines) == 1 + len(hostile().vertices) + len(hostile().edges)
    inside = [line.split('"')[1] for line in lines[1 : 1 + len(hostile().vertices)]]
    assert all(line.count('"') == 2 for line in lines[1:])
    assert all(
        character.isalnum() or character in " /:.-_#;\N{REPLACEMENT CHARACTER}" for text in inside for character in text
    )


def test_large_mermaid_is_cut_and_says_so() -> None:
    text = mermaid(large(2_000))
    assert text.count("-->") + text.count(".->") == MERMAID_EDGES_MAX
    assert f"%% the {MERMAID_EDGES_MAX} busiest of " in text


def test_dot_is_quoted() -> None:
    text = dot(hostile())
    assert text.startswith("digraph topology {\n")
    assert '[label="\\"; } digraph {"' in text
    assert "\x1b" not in text
    assert len(text.splitlines()) == 4 + len(hostile().vertices) + len(hostile().edges)


@pytest.mark.parametrize("table", COLUMNS)
def test_tables_hold_everything(table: str, tmp_path: Path) -> None:
    topology = hostile()
    rows = list(csv.DictReader(io.StringIO(csv_text(topology, table))))
    write_parquet(topology, table, tmp_path / "x.parquet")
    again = pq.read_table(tmp_path / "x.parquet").to_pylist()

    values, key = getattr(topology, table), COLUMNS[table][0]
    assert [row[key] for row in again] == [getattr(each, key) for each in values]
    assert len(rows) == len(values)
    assert not any((cell or "").startswith(("=", "+", "@")) for row in rows for cell in row.values())


def test_two_runs_are_compared_by_id() -> None:
    old = small()
    assert compare(old, old).empty
    edges = tuple(
        replace(edge, rate=edge.rate * 10) if edge.source == "source:/web" and edge.rate else edge
        for edge in old.edges[1:]
    )
    new = replace(old, edges=edges, findings=old.findings[1:], vertices=old.vertices[:-1])

    difference = compare(old, new)

    assert [finding.id for finding in difference.findings_gone] == ["reply-loop:channel:shop/bills"]
    assert difference.edges_gone == (old.edges[0].id,)
    assert difference.vertices_gone == (old.vertices[-1].id,)
    assert [(change.what, change.before, change.after) for change in difference.changes] == [("rate", 20.0, 200.0)]
    assert [finding.id for finding in compare(new, old).findings_new] == ["reply-loop:channel:shop/bills"]


def test_words_for_a_terminal_drive_none(capsys: pytest.CaptureFixture[str]) -> None:
    finding = replace(
        small().findings[0], title=f"\x1b[2J{HOSTILE_SOURCE}", evidence=("[red]x[/red]\r\n" + "y" * 300,) * 9
    )
    show_topology(replace(hostile(), findings=(finding, *small().findings)))
    show_difference(compare(small(), replace(small(), findings=(finding,))))
    printed = capsys.readouterr().out

    assert "\x1b[2J" not in printed
    assert "[red]x[/red]" in printed
    assert "y" * 300 in printed
    assert "3 findings: 2 critical, 1 info." in printed
    assert "gone: info attic/forgotten receives no events" in printed


def test_deltas_and_windows_add_up_to_the_same() -> None:
    deltas = [
        Delta("w", 1, 5, "accepted", "n", "c", "", "t", "/a", Counts(3, 30)),
        Delta("w", 1, 5, "accepted", "n", "c", "", "t", "/a", Counts(3, 30)),
        Delta("w", 2, 6, "accepted", "n", "c", "", "u", "/a", Counts(1, 10)),
        Delta("w", 3, 6, "settled", "n", "c", "s", "t", "/a", Counts(4, 40, 2, 1, 1, 0, 1), {5: 2}),
    ]
    windows = Summing()
    windows.row(Window(0, 60, "stored", "n", "c", "", "t", "/a", Counts(3, 30)))
    windows.row(Window(0, 60, "stored", "n", "c", "", "u", "/a", Counts(1, 10)))
    windows.row(Window(0, 60, "settled", "n", "c", "s", "t", "/a", Counts(4, 40, 2, 1, 1, 0, 1), 0, {5: 2}))

    summing = Summing()
    for delta in deltas:
        summing.delta(delta)
    traffic, arrivals = summing.sums()
    assert traffic == windows.sums()[0]
    streams = [("/a", ("n", "c", "t"), 3, 30), ("/a", ("n", "c", "u"), 1, 10)]
    assert list(arrivals.rows()) == list(windows.sums()[1].rows()) == streams
    settled, accepted = traffic
    assert (accepted.counts.events, settled.subscription, settled.counts.dead) == (4, "s", 1)


@pytest.mark.parametrize("partial", [True, False])
def test_terminal_says_that_it_counts_a_part_of_a_map(partial: bool, capsys: pytest.CaptureFixture[str]) -> None:
    show_topology(replace(small(), partial=partial))

    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("2 sources, 3 channels")
    assert (" in the part of the map that is listed; " in first) is partial


#: Each format with a place for it, and how it says that it has a part of a map.
SAYS: dict[str, tuple[Callable[[Topology], str], str]] = {
    "mermaid": (mermaid, f"  %% {A_PART}\n"),
    "dot": (dot, f'  comment="{A_PART}";\n'),
    "graphml": (graphml, f'<data key="graph-partial">{A_PART}</data>'),
    "asyncapi": (asyncapi, f'`penstock topology`. {A_PART}"'),
    "backstage": (backstage, f"  description: {A_PART}\n"),
}


@pytest.mark.parametrize(("export", "text"), SAYS.values(), ids=SAYS)
def test_export_of_a_part_of_a_map_says_so(export: Callable[[Topology], str], text: str) -> None:
    assert text in export(replace(small(), partial=True))
    assert A_PART not in export(small())


def test_table_of_a_part_of_a_map_says_so(tmp_path: Path) -> None:
    for partial in (True, False):
        write_parquet(replace(small(), partial=partial), "edges", tmp_path / "edges")
        assert (pq.read_schema(tmp_path / "edges").metadata or {}) == ({b"partial": A_PART.encode()} if partial else {})


@pytest.mark.parametrize("shape", Shape)
def test_terminal_says_of_a_part_of_a_map_what_its_format_may_not(
    shape: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    query = TopologyQuery({"bootstrap.servers": "k:9092"}, "i", 1.0, 0.0, 1.0)
    for partial in (True, False):
        finish(replace(small(), partial=partial), None, None, None, shape, query)
        in_it = shape in (Shape.TABLE, Shape.JSON, Shape.HTML)
        assert (A_PART in capsys.readouterr().err) is (partial and not in_it)
