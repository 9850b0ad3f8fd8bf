"""The current topology for the console's map: like `penstock topology`, but from what this process has in memory.

    statuses, windows of the last minute --> Inputs --> vertices and edges, findings --> data of the map, figures, table

The windows do not say who sent an event, so senders are not on it. Findings that compare long sums are left out: a
minute says too little for them. Walks need numpy; without it the map is whole, and has no findings.
Pure. Takes milliseconds for each hundred vertices: call it in a thread.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from analytics.topology.document_builder import DocumentBuilder
from analytics.topology.model.document import Finding, Flow, Health, Kind, Tier, Topology, Vertex, Window
from analytics.topology.model.facts import Facts, facts_of
from analytics.topology.model.inputs import Inputs, Traffic
from analytics.topology.model.totals import total
from analytics.topology.report import words
from analytics.topology.report.icons import ICONS
from analytics.topology.report.page import legend
from analytics.topology.report.pagedata import as_text, page_values
from analytics.topology.report.pagegraph import HEALTHS, PageGraph, gather
from app.operations.topology.reading import state_of
from app.settings.extras import REPORT, install_command, need
from knative import shown
from knative.contract.records import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER
from knative.errors import UsageError
from tables.status_table import FRESH_S
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import LONG_S, SHORT_S, merged, start_of
from web.console.rows import PATHS, Level, path_of, row_of
from web.console.state import MapEdge, MapFinding, MapView, State

_KINDS = {
    Kind.CHANNEL: CHANNEL,
    Kind.BROKER: BROKER,
    Kind.SUBSCRIPTION: SUBSCRIPTION,
    Kind.TRIGGER: TRIGGER,
}
_NO_WALKS = f"Findings need more packages: run {install_command(REPORT)}."


def map_of(state: State) -> MapView:
    """Returns the map of an installation."""
    inputs = inputs_of(state)
    facts = facts_of(inputs)
    # A minute is too short to say that nobody sends or that events are missing.
    facts = replace(facts, joins=replace(facts.joins, unsent=(), imbalances=()))
    findings, islands, note = _findings(inputs, facts)
    vertices, edges = DocumentBuilder(inputs, facts, islands).build()
    vertices = tuple(_as_in_overview(vertices, state))
    topology = Topology(
        generated_at=state.at_s,
        instance=state.instance,
        namespace="",
        window=inputs.window,
        tier=inputs.tier,
        engine="local",
        method=(),
        vertices=vertices,
        edges=edges,
        findings=findings,
    )
    graph = gather(topology)
    data = page_values(graph, findings)
    for vertex in vertices:
        kind, place = _KINDS.get(vertex.kind), graph.places.get(vertex.id)
        if kind is not None and place is not None:
            data["vertices"][place]["page"] = path_of(kind, vertex.namespace, vertex.name)
    content = as_text(data).encode()
    return MapView(
        version=hashlib.sha256(content).hexdigest()[:16],
        data=content,
        group_icon=ICONS["group"],
        legend=tuple(legend(graph)),
        vertices=len(vertices),
        accepted_per_s=total(vertex.rate for vertex in vertices if vertex.kind in (Kind.CHANNEL, Kind.BROKER)),
        delivered_per_s=total(edge.rate for edge in edges if edge.kind is Flow.DELIVERS),
        lag=sum(vertex.lag or 0 for vertex in vertices),
        findings=tuple(_map_finding(finding) for finding in findings),
        edges=tuple(_table(graph)),
        left_out=graph.omitted_vertices,
        note=note,
    )


def inputs_of(state: State) -> Inputs:
    """Returns what the topology is built from."""
    workers = sum(state.at_s - worker.time <= FRESH_S for worker in state.workers)
    if state.traffic is not None:
        end = start_of(int(state.at_s), SHORT_S)
        traffic, window, tier = _traffic(state.traffic, end), Window(end - LONG_S, end), Tier.DELTAS
    else:
        traffic, window, tier = [], Window(state.at_s - LONG_S, state.at_s), Tier.STATUS
    served = [status for status in state.resources if status.subscription is not None and status.details is not None]
    return Inputs(
        instance=state.instance,
        now=state.at_s,
        channels=[status.channel for status in state.resources if status.channel is not None],
        subscriptions=[status.subscription for status in served if status.subscription is not None],
        states={
            status.subscription.uid: state_of(status.details, window.start)
            for status in served
            if status.subscription is not None and status.details is not None
        },
        traffic=traffic,
        window=window,
        tier=tier if workers or state.traffic is not None else Tier.NONE,
        workers=workers,
    )


def _as_in_overview(vertices: Iterable[Vertex], state: State) -> Iterator[Vertex]:
    """The overview also warns of what is older than the minute, such as dead letters that nobody has redriven."""
    rows = (row_of(status, state.letters) for status in state.resources if status.kind in PATHS)
    warnings = {(row.kind, row.namespace, row.name): row for row in rows if row.level is Level.WARN}
    for vertex in vertices:
        row = warnings.get((_KINDS.get(vertex.kind, ""), vertex.namespace, vertex.name))
        if row is None or vertex.health not in (Health.OK, Health.IDLE):
            yield vertex
        else:
            why = f"{shown.plural(row.letters, 'dead letter')}, not redriven" if row.letters else row.message
            yield replace(vertex, health=Health.DEGRADED, message=why)


def _traffic(rows: HeldRows, end: int) -> list[Traffic]:
    """Returns what was accepted and settled in the last minute of full windows."""
    sums = []
    for line in rows.lines(SHORT_S, LONG_S // SHORT_S + 1):
        whole = merged(window for start, window in line.windows.items() if end - LONG_S <= start < end)
        counts = whole.counts if not line.subscription else replace(whole.counts, events=whole.counts.settled)
        sums.append(
            Traffic(not line.subscription, line.namespace, line.channel, line.subscription, counts, whole.latency)
        )
    return sums


def _findings(inputs: Inputs, facts: Facts) -> tuple[tuple[Finding, ...], Mapping[str, int], str | None]:
    """Returns findings, the number of each vertex's island, and why there are none."""
    try:
        need(REPORT, "The map's findings", ("numpy",))
    except UsageError:
        return (), defaultdict(int), _NO_WALKS
    from analytics.topology.engines.local import LocalEngine
    from analytics.topology.engines.queries import walk
    from analytics.topology.findings import findings_of

    walks = walk(facts, LocalEngine(), inputs.window.seconds, inputs.counted)
    return findings_of(inputs, facts, walks)[0], walks.island_of, None


def _map_finding(finding: Finding) -> MapFinding:
    severity = finding.severity.value
    return MapFinding(severity, words.SEVERITIES[severity], finding.title, finding.evidence, finding.remedy)


def _table(graph: PageGraph) -> Iterator[MapEdge]:
    """Yields the worst first, then the busiest."""
    for line in sorted(graph.lines, key=lambda line: (HEALTHS.index(line.health), -(line.rate or 0.0))):
        source, target = graph.items[line.source], graph.items[line.target]
        yield MapEdge(
            source=source.label,
            flow=words.FLOWS[line.kind],
            target=target.label,
            health=line.health.value,
            per_s=line.rate,
            lag=line.lag,
            failures=line.failures,
            p99_s=line.latency_p99_s,
        )
