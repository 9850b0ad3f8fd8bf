"""Compares two runs by their stable ids: what was added, what was removed, and what changed much.

Rates are compared only if both runs know them; small changes are ignored. Does not judge which run is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analytics.topology.model.document import Edge, Finding, Health, Topology, Vertex


@dataclass(frozen=True, slots=True)
class Change:
    """A vertex or edge that is in both runs."""

    id: str
    what: str  #: health | rate | lag
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

    @property
    def empty(self) -> bool:
        """Whether nothing differs."""
        return not any(
            (
                self.findings_new,
                self.findings_gone,
                self.vertices_new,
                self.vertices_gone,
                self.edges_new,
                self.edges_gone,
                self.changes,
            )
        )

    def as_dict(self) -> dict[str, Any]:
        """The difference as a value for JSON."""
        return asdict(self)


def compare(old: Topology, new: Topology) -> Difference:
    """What is only in `new`, what is only in `old`, and what changed. All sorted by id."""
    findings_new, findings_gone = _apart(_by_id(old.findings), _by_id(new.findings))
    vertices, edges = (_by_id(old.vertices), _by_id(new.vertices)), (_by_id(old.edges), _by_id(new.edges))
    vertices_new, vertices_gone = _apart(*vertices)
    edges_new, edges_gone = _apart(*edges)
    return Difference(
        old.generated_at,
        new.generated_at,
        tuple(_by_id(new.findings)[id_] for id_ in findings_new),
        tuple(_by_id(old.findings)[id_] for id_ in findings_gone),
        vertices_new,
        vertices_gone,
        edges_new,
        edges_gone,
        (*_changes(*vertices), *_changes(*edges)),
    )


def _by_id(some: Sequence[Any]) -> dict[str, Any]:
    return {one.id: one for one in some}


def _apart(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys()))


def _changes(old: Mapping[str, Vertex | Edge], new: Mapping[str, Vertex | Edge]) -> list[Change]:
    found = []
    for id_ in sorted(old.keys() & new.keys()):
        one, other = old[id_], new[id_]
        if _health(one.health) != _health(other.health):
            found.append(Change(id_, "health", one.health.value, other.health.value))
        if _much(one.rate, other.rate):
            found.append(Change(id_, "rate", one.rate, other.rate))
    return found


def _health(health: Health) -> Health:
    """Idle counts as ok here: whether something is idle or busy is a change of the rate."""
    return Health.OK if health is Health.IDLE else health


def _much(old: float | None, new: float | None) -> bool:
    """Half as much again, unless both are so few events a second that it is noise."""
    if old is None or new is None or max(old, new) < 0.1:
        return False
    return max(old, new) > 1.5 * min(old, new)
