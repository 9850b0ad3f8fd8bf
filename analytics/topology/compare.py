"""Compares two runs by their stable ids: what was added, what was removed, and what changed much; and their totals.

Figures are compared only if both runs know them; small changes are ignored. Failures are counts, so they are compared
per second of the window. Does not judge which run is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analytics.topology.model.document import Edge, Finding, Health, Kind, Topology, Vertex

PARTIAL = (
    "One run has only a part of a large map, so new and gone vertices and connections, and changes of sources and "
    "destinations, are not shown."
)
#: Vertices whose figures are their own. Those of others are sums over the edges of the document.
_COUNTED = frozenset({Kind.CHANNEL, Kind.BROKER, Kind.SUBSCRIPTION, Kind.TRIGGER})


@dataclass(frozen=True, slots=True)
class Change:
    """A vertex, an edge or a total that is in both runs."""

    id: str  #: of a total: its namespace, "" = the whole map
    what: str  #: health | rate | failures (per second) | latency_p50_s | latency_p99_s; of a total: a field of Totals
    before: str | float | None
    after: str | float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Changes from the older to the newer run."""

    before: float  #: Unix seconds
    after: float
    findings_new: tuple[Finding, ...]
    findings_gone: tuple[Finding, ...]
    vertices_new: tuple[str, ...]
    vertices_gone: tuple[str, ...]
    edges_new: tuple[str, ...]
    edges_gone: tuple[str, ...]
    changes: tuple[Change, ...]
    totals: tuple[Change, ...]  #: every figure of the whole map, and what changed much in a namespace
    partial: bool = False  #: see `PARTIAL`

    @property
    def empty(self) -> bool:
        """Whether nothing differs much. The whole map's totals are there in any case."""
        return not any(
            (
                self.findings_new,
                self.findings_gone,
                self.vertices_new,
                self.vertices_gone,
                self.edges_new,
                self.edges_gone,
                self.changes,
                [change for change in self.totals if change.id],
            )
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the difference as a value for JSON."""
        return asdict(self)


def compare(old: Topology, new: Topology) -> Difference:
    """Returns what is only in `new`, what is only in `old`, and what changed. All sorted by id.

    If a run has only a part of its map, only what is in both runs is compared: what is missing may be in the map."""
    partial = old.partial or new.partial
    findings_new, findings_gone = _apart(_by_id(old.findings), _by_id(new.findings))
    vertices, edges = (_compared(old, partial), _compared(new, partial)), (_by_id(old.edges), _by_id(new.edges))
    vertices_new, vertices_gone = ((), ()) if partial else _apart(*vertices)
    edges_new, edges_gone = ((), ()) if partial else _apart(*edges)
    spans = old.window.seconds, new.window.seconds
    return Difference(
        before=old.generated_at,
        after=new.generated_at,
        findings_new=tuple(_by_id(new.findings)[id_] for id_ in findings_new),
        findings_gone=tuple(_by_id(old.findings)[id_] for id_ in findings_gone),
        vertices_new=vertices_new,
        vertices_gone=vertices_gone,
        edges_new=edges_new,
        edges_gone=edges_gone,
        changes=(*_changes(*vertices, *spans), *_changes(*edges, *spans)),
        totals=tuple(_totals(old, new)),
        partial=partial,
    )


def _compared(run: Topology, partial: bool) -> dict[str, Any]:
    return _by_id([vertex for vertex in run.vertices if not partial or vertex.kind in _COUNTED])


def _by_id(some: Sequence[Any]) -> dict[str, Any]:
    return {element.id: element for element in some}


def _apart(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys()))


Figures = Mapping[str, float | None]
#: Of a namespace, what is compared.
_OF_A_NAMESPACE = ("events", "deliveries", "failures", "dead_letters", "fan_out")


def _changes(
    old: Mapping[str, Vertex | Edge], new: Mapping[str, Vertex | Edge], old_s: float, new_s: float
) -> Iterator[Change]:
    """Yields the changes of what is in both runs, by id. `old_s` and `new_s`: lengths of the windows."""
    for id_ in sorted(old.keys() & new.keys()):
        before, after = old[id_], new[id_]
        if _health(before.health) != _health(after.health):
            yield Change(id_, "health", before.health.value, after.health.value)
        yield from _much_changed(id_, _figures(before, old_s), _figures(after, new_s))


def _figures(item: Vertex | Edge, seconds: float) -> Figures:
    if isinstance(item, Vertex):
        return {"rate": item.rate}
    failures = item.failures / seconds if item.failures is not None and seconds > 0 else None
    return {
        "rate": item.rate,
        "failures": failures,
        "latency_p50_s": item.latency_p50_s,
        "latency_p99_s": item.latency_p99_s,
    }


def _much_changed(id_: str, old: Figures, new: Figures) -> Iterator[Change]:
    return (Change(id_, what, old[what], new[what]) for what in old if _much(what, old[what], new[what]))


def _totals(old: Topology, new: Topology) -> Iterator[Change]:
    older, newer = ({part.namespace: asdict(part) for part in run.totals} for run in (old, new))
    for what in list(older[""])[1:]:
        yield Change("", what, older[""][what], newer[""][what])
    for namespace in sorted(older.keys() & newer.keys() - {""}):
        before, after = ({what: part[namespace][what] for what in _OF_A_NAMESPACE} for part in (older, newer))
        yield from _much_changed(namespace, before, after)


def _health(health: Health) -> Health:
    """Idle counts as ok here: whether something is idle or busy is a change of the rate."""
    return Health.OK if health is Health.IDLE else health


def _much(what: str, old: float | None, new: float | None) -> bool:
    """Returns whether one figure exceeds the other by half, unless both are so small that the difference is noise: an
    event in ten seconds, a failure in a hundred, 10 ms."""
    least = 0.01 if what.startswith(("latency", "failures", "dead_letters")) else 0.1
    return old is not None and new is not None and max(old, new) >= least and max(old, new) > 1.5 * min(old, new)
