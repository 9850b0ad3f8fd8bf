"""Selects the part of a large map that is in the document: what findings and rankings name, and the busiest.

The document is what is large, not the walk: a vertex or edge of it takes 1 kB, and some 2 kB more in the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING

from analytics.topology.model.document import Finding, Ranking, Reach
from analytics.topology.model.facts import Facts, SubscriptionFacts

if TYPE_CHECKING:
    from analytics.topology.model.arrivals import Arrivals

WHOLE_EDGES_MAX = 100_000  #: a map of no more edges is in the document as a whole
BUSIEST_MAX = 2_000  #: subscriptions, and channels
ARRIVALS_MAX = 20_000  #: edges of sources, of event types, and between these


def part_of(
    facts: Facts, findings: Iterable[Finding], rankings: Iterable[Ranking], reach: Iterable[Reach]
) -> tuple[Facts, str]:
    """Returns the part, and a sentence that says what it is. Its joins are those of the whole map."""
    names = {id_ for finding in findings for id_ in finding.objects}
    names.update(rank.id for ranking in rankings for rank in ranking.rows)
    names.update(start.source for start in reach)
    consumers = _consumers(facts, names)
    names.update(id_ for consumer in consumers for id_ in _ends(consumer))
    names.update(nlargest(BUSIEST_MAX, facts.accepted, key=lambda id_: facts.accepted[id_]))
    published, types = (
        None if arrivals is None else _arrivals(arrivals, names) for arrivals in (facts.published, facts.types)
    )
    for arrivals in (published, types):
        if arrivals is not None:
            names.update(arrivals.channels[place] for place in set(arrivals.channel.tolist()))
    channels = {id_: channel for id_, channel in facts.channels.items() if id_ in names}
    sent = None
    if facts.sent is not None and published is not None and types is not None:
        sent = _sent(facts.sent, _starts(published), _starts(types))
    part = replace(facts, channels=channels, consumers=consumers, published=published, types=types, sent=sent)
    return part, (
        f"The map has {facts.edges_count()} edges. Findings and rankings cover all of them. The page shows "
        f"{len(consumers)} subscriptions and {len(channels)} channels that they name, or that are the busiest, and the "
        "figures of a source or a destination cover only these."
    )


def _consumers(facts: Facts, names: set[str]) -> Sequence[SubscriptionFacts]:
    """Returns the consumers that findings name, the busiest, and for every other vertex that they name one consumer
    that leads to it: without an edge the vertex would not be in the document."""

    def events(consumer: SubscriptionFacts) -> int:
        total = facts.settled.get(consumer.id)
        return 0 if total is None else total.counts.events

    kept = {consumer.id for consumer in nlargest(BUSIEST_MAX, facts.consumers, key=events) if events(consumer)} | names
    missing = names - facts.channels.keys()
    for consumer in facts.consumers:
        if consumer.id in kept:
            missing.difference_update(_ends(consumer))
    for consumer in facts.consumers:
        if not missing.isdisjoint(_ends(consumer)):
            missing.difference_update(_ends(consumer))
            kept.add(consumer.id)
    return [consumer for consumer in facts.consumers if consumer.id in kept]


def _ends(consumer: SubscriptionFacts) -> tuple[str, ...]:
    return consumer.channel, consumer.target, consumer.reply, consumer.dead


def _arrivals(published: Arrivals[str], names: set[str]) -> Arrivals[str]:
    """Returns the busiest arrivals in the channels that are shown, and the busiest of each source that findings
    name."""
    import numpy as np

    of_channels = np.array([id_ in names for id_ in published.channels], dtype=np.bool_)
    rows = np.flatnonzero(of_channels[published.channel])
    busiest = rows[np.argsort(-published.events[rows], kind="stable")[:ARRIVALS_MAX]]
    of_sources = np.array([id_ in names for id_ in published.sources], dtype=np.bool_)
    sent = np.flatnonzero(of_sources[published.source])
    sent = sent[np.lexsort((-published.events[sent], published.source[sent]))]
    _, first = np.unique(published.source[sent], return_index=True)
    return published.only(np.union1d(busiest, sent[first]))


def _starts(arrivals: Arrivals[str]) -> set[str]:
    return {arrivals.sources[place] for place in set(arrivals.source.tolist())}


def _sent(sent: Arrivals[str], sources: set[str], types: set[str]) -> Arrivals[str]:
    """Returns the busiest pairs of source and event type, of vertices that are shown."""
    import numpy as np

    of_sources = np.array([id_ in sources for id_ in sent.sources], dtype=np.bool_)
    of_types = np.array([id_ in types for id_ in sent.channels], dtype=np.bool_)
    rows = np.flatnonzero(of_sources[sent.source] & of_types[sent.channel])
    return sent.only(np.sort(rows[np.argsort(-sent.events[rows], kind="stable")[:ARRIVALS_MAX]]))
