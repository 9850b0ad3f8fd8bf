"""The terminal output of `penstock topology impact` and `penstock topology path`."""

from __future__ import annotations

from collections.abc import Mapping

from analytics.topology.model.document import Topology, Vertex
from analytics.topology.questions import Impact, Path, Paths, Reached, Step, title
from app.cli.output.format import escaped, print_table
from knative import shown

_PART = "The document contains only a part of the map, so there may be more."
_REACHED = {
    "hops": "HOPS",
    "kind": "KIND",
    "name": "NAME",
    "by": "BY",
    "health": "HEALTH",
    "rate": "EVENTS",
    "bytes": "BYTES",
    "lag": "LAG",
}
_STEPS = {
    "by": "BY",
    "name": "TO",
    "health": "HEALTH",
    "rate": "EVENTS",
    "failures": "FAILURES",
    "p50": "P50",
    "p99": "P99",
    "slowest": "",
}


def show_impact(impact: Impact) -> None:
    """Print the vertex, then what is upstream, then what is downstream."""
    vertex = impact.vertex
    about = [vertex.health.value, shown.rate(vertex.rate), vertex.message]
    print(escaped(f"{title(vertex)}: {', '.join(part for part in about if part and part != shown.UNKNOWN)}"))
    for direction, rows in (("Upstream", impact.upstream), ("Downstream", impact.downstream)):
        print()
        if rows:
            hops = max(row.hops for row in rows)
            print(f"{direction}: {shown.plural(len(rows), 'vertex', 'vertices')}, {shown.plural(hops, 'hop')} at most")
        filters = any(row.certain is not None for row in rows)
        columns = {**_REACHED, "filter": "FILTER"} if filters else _REACHED
        print_table(columns, [_reached(row) for row in rows], f"{direction}: nothing.")
    if not impact.complete:
        print(f"\n{_PART}")


def _reached(row: Reached) -> Mapping[str, object]:
    return {
        "hops": row.hops,
        "kind": row.kind.value,
        "name": row.label,
        "by": row.flow.value,
        "health": row.health.value,
        "rate": shown.rate(row.rate),
        "bytes": shown.bytes_rate(row.bytes_rate),
        "lag": shown.count(row.lag),
        "filter": "" if row.certain is None else f"{row.filter or 'none'}{'' if row.certain else ' (may pass)'}",
    }


def show_paths(topology: Topology, paths: Paths) -> None:
    """Print each path with its latency and the latencies of its steps."""
    vertices = {vertex.id: vertex for vertex in topology.vertices}
    source, target = (title(vertices[id_]) for id_ in (paths.source, paths.target))
    if not paths.paths:
        print(escaped(f"No path leads from {source} to {target}."))
        if topology.partial:
            print(_PART)
        return
    for number, path in enumerate(paths.paths, start=1):
        print(escaped(f"Path {number}: {shown.plural(len(path.steps), 'hop')} from {source}, {_latency(path)}"))
        print_table(_STEPS, [_step(step, vertices[step.target], step.id == path.slowest) for step in path.steps], "")
        print()
    count = shown.plural(len(paths.paths), "path")
    if topology.partial:
        print(f"{count}. {_PART}")
    elif paths.complete:
        print(f"{count}.")
    else:
        print(f"These are the {count} paths with the fewest hops. There are more paths.")


def _latency(path: Path) -> str:
    if path.latency_p99_s is None:
        return "unknown latency"
    return f"p50 {shown.seconds(path.latency_p50_s)}, p99 {shown.seconds(path.latency_p99_s)}"


def _step(step: Step, target: Vertex, slowest: bool) -> Mapping[str, object]:
    return {
        "by": step.flow.value,
        "name": title(target),
        "health": step.health.value,
        "rate": shown.rate(step.rate),
        "failures": shown.count(step.failures),
        "p50": shown.seconds(step.latency_p50_s),
        "p99": shown.seconds(step.latency_p99_s),
        "slowest": "slowest" if slowest else "",
    }
