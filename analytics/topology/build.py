"""One run: takes inputs and an engine, returns the document.

    Inputs -> facts_of -> walk -> findings, rankings -> `selection`, if the map is large -> DocumentBuilder -> Topology

The caller reads the inputs and writes the document.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from heapq import nsmallest

from analytics.topology.document_builder import DocumentBuilder, rate_of
from analytics.topology.engines.port import DAMPING, ROUNDS, Engine
from analytics.topology.engines.queries import GraphAnswers, walk
from analytics.topology.findings import findings_of
from analytics.topology.model.arrivals import SOURCES_MAX, TYPES_MAX
from analytics.topology.model.document import LISTED_MAX, Rank, Ranking, Tier, Topology
from analytics.topology.model.facts import Facts, facts_of
from analytics.topology.model.inputs import Inputs
from analytics.topology.model.totals import sums
from analytics.topology.selection import WHOLE_EDGES_MAX, part_of

_TIERS = {
    Tier.WINDOWS: "Numbers come from the windows of `penstock job traffic`",
    Tier.DELTAS: "Numbers come from the workers' traffic records, one per second and key",
    Tier.STATUS: "Rates come from the workers' statuses and cover the last minute; senders are not known",
    Tier.NONE: "No traffic was read: the map shows the contract, without rates",
}


def build(
    inputs: Inputs,
    engine: Engine,
    facts: Facts | None = None,
    notes: Iterable[str] = (),
    whole: int = WHOLE_EDGES_MAX,
) -> Topology:
    """Build the document. `facts`: if already computed; otherwise they are computed here. `whole`: the document has all
    of a map of no more edges, and of a larger one what findings and rankings name, and the busiest.
    """
    with collector_at_rest():
        return _build(inputs, engine, facts_of(inputs) if facts is None else facts, notes, whole)


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Disables the cyclic garbage collector: a run makes millions of small values without cycles, and half of its time
    would be spent looking for them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _build(inputs: Inputs, engine: Engine, facts: Facts, notes: Iterable[str], whole: int) -> Topology:
    walks = walk(facts, engine, inputs.window.seconds, inputs.counted)
    findings, left_out = findings_of(inputs, facts, walks)
    rankings = tuple(ranking for ranking in _rankings(inputs, facts, walks) if ranking.rows)
    method = [*_method(inputs, facts, walks), *notes, *left_out]
    totals = None
    if partial := facts.edges_count() > whole:
        counted = DocumentBuilder(inputs, facts, walks.island_of).counted()
        totals = sums(*counted, inputs.window.seconds)
        facts, what = part_of(facts, findings, rankings, walks.reach)
        method.append(what)
    vertices, edges = DocumentBuilder(inputs, facts, walks.island_of).build()
    return Topology(
        generated_at=inputs.now,
        instance=inputs.instance,
        namespace=inputs.namespace,
        window=inputs.window,
        tier=inputs.tier,
        engine=walks.engine,
        method=tuple(method),
        vertices=vertices,
        edges=edges,
        findings=findings,
        rankings=rankings,
        reach=walks.reach,
        islands=walks.islands,
        totals=totals if totals is not None else sums(vertices, edges, inputs.window.seconds),
        partial=partial,
    )


def _method(inputs: Inputs, facts: Facts, walks: GraphAnswers) -> list[str]:
    length = f" ({inputs.window.seconds:.0f} s)" if inputs.window.seconds else ""
    lines = [
        f"{_TIERS[inputs.tier]}{length}.",
        "Lag, readiness and errors come from the current statuses of the workers."
        if inputs.workers
        else "No worker runs, so lag and readiness are not known.",
        f"Loops are strongly connected components, walked by the {walks.engine} engine; in each, the shortest cycle "
        "through every channel is shown.",
        "A destination with the host or path of a known channel or broker is that channel, on any host.",
        "Replies are not counted. For influence, an edge of replies weighs at most the number of deliveries.",
        f"Influence: deliveries that depend on a channel, minus {1 - DAMPING:.0%} for each edge, up to {ROUNDS} edges "
        "away.",
    ]
    if not inputs.counted:
        lines.append("Without counts, senders are not known: channels without senders are not searched for.")
    elif not inputs.current:
        lines.append("The window has ended and lag is current, so missing events are not searched for.")
    if facts.sources_left_out:
        lines.append(
            f"{facts.sources_left_out} sources with the fewest events are shown as one; {SOURCES_MAX} are kept apart."
        )
    if facts.types_left_out:
        lines.append(
            f"{facts.types_left_out} event types with the fewest events are shown as one; {TYPES_MAX} are kept apart."
        )
    return [*lines, *inputs.notes, *walks.notes]


def _rankings(inputs: Inputs, facts: Facts, walks: GraphAnswers) -> Iterable[Ranking]:
    seconds = inputs.window.seconds if inputs.counted else 0.0
    unit = "deliveries/s" if seconds else "destinations"
    yield Ranking(
        "influence",
        "Most influential channels",
        unit,
        tuple(Rank(id_, round(value, 6)) for id_, value in walks.influence[:LISTED_MAX] if value > 0),
    )
    rates = ((id_, rate_of(events, seconds) or 0.0) for id_, (events, _) in facts.accepted.items())
    yield Ranking("traffic", "Busiest channels", "events/s", _top(rates))
    states = ((consumer.id, inputs.states.get(consumer.subscription.uid)) for consumer in facts.consumers)
    lags = ((id_, float(state.lag or 0)) for id_, state in states if state is not None)
    yield Ranking("lag", "Furthest behind", "events", _top(lags))
    settled = ((id_, total.counts) for id_, total in facts.settled.items() if seconds)
    failures = ((id_, float(counts.retried + counts.dead)) for id_, counts in settled)
    yield Ranking("failures", "Most failed attempts", "attempts", _top(failures))
    yield Ranking(
        "cut",
        "Single points of failure: what would be disconnected without them",
        "vertices",
        tuple(Rank(id_, float(cut[0]), f"{cut[1]} channels" if cut[1] else "") for id_, cut in _ranked_cuts(walks)),
    )
    reach = sorted(walks.reach, key=lambda entry: (-entry.reached, entry.source))
    rows = (Rank(entry.source, float(entry.reached), f"up to {entry.hops_max} hops") for entry in reach[:LISTED_MAX])
    yield Ranking("reach", "Sources with the largest reach", "vertices", tuple(rows))


def _ranked_cuts(walks: GraphAnswers) -> list[tuple[str, tuple[int, int]]]:
    """Returns the first cut vertices: each with the numbers of vertices and of channels that are cut off without it."""
    some = (
        (id_, cut)
        for id_, cut in walks.articulation_points.items()
        if not id_.startswith(("subscription:", "trigger:"))
    )
    return nsmallest(LISTED_MAX, some, key=lambda item: (-item[1][1], -item[1][0], item[0]))


def _top(rows: Iterable[tuple[str, float]]) -> tuple[Rank, ...]:
    ranked = nsmallest(LISTED_MAX, (row for row in rows if row[1]), key=lambda row: (-row[1], row[0]))
    return tuple(Rank(id_, value) for id_, value in ranked)
