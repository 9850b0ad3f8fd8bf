"""Finds subscribers that get an event twice: by two subscriptions whose paths begin in one channel.

    same event:   A --sub--> B (a channel)   and X subscribes to A and to B:    X gets the event twice
    its child:    A --sub--> X replies to B  and X subscribes to B too:         X gets the event, then what came of it

Walks backwards over channels, from those that lead to a destination with two subscriptions or more. Two subscriptions
of one channel need only a join (`facts.Joins.doubles`), and members of one loop are reported with the loop. Ignores
dead letter sinks: their events were not delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from analytics.topology.engines.port import Engine, Graph, Ints
from analytics.topology.model.document import LISTED_MAX
from analytics.topology.model.facts import Facts, SubscriptionFacts

STARTS_MAX = 2_000
STEPS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class DoubleDelivery:
    """Two subscriptions of one destination. `hops`: edges between channels from `via` to the farther one."""

    destination: str
    first: str
    second: str
    via: str  #: the channel where both paths begin
    hops: int


@dataclass(frozen=True, slots=True)
class DoubleDeliveries:
    """The results, sorted."""

    same: tuple[DoubleDelivery, ...] = ()  #: the same event
    child: tuple[DoubleDelivery, ...] = ()  #: the event, and the reply that resulted from it


class Way(Protocol):
    """A subscription that delivers to a destination; only what is needed here."""

    @property
    def id(self) -> str: ...
    @property
    def channel(self) -> str: ...


Above = Mapping[str, Mapping[str, int]]  #: channel -> the channels that lead to it -> edges between


def double_deliveries(facts: Facts, engine: Engine, loop_of: Mapping[str, int]) -> tuple[DoubleDeliveries, list[str]]:
    """Returns the double deliveries, and notes on limits. `loop_of`: component of each vertex in a loop."""
    at: dict[str, list[SubscriptionFacts]] = defaultdict(list)
    # Channels are left out as destinations, because the walk passes through them.
    for consumer in facts.consumers:
        if consumer.target not in facts.channels:
            at[consumer.target].append(consumer)
    # Only destinations with subscriptions of several channels need a walk.
    shared = {target: some for target, some in at.items() if len({subscription.channel for subscription in some}) > 1}
    channels = {subscription.channel for some in shared.values() for subscription in some}
    forwards = {
        (consumer.channel, consumer.target) for consumer in facts.consumers if consumer.target in facts.channels
    }
    replies = {(consumer.channel, consumer.reply) for consumer in facts.consumers if consumer.reply in facts.channels}
    above_same, note_same = _above(engine, forwards, channels)
    above_any, note_any = _above(engine, forwards | replies, channels) if replies else (above_same, [])
    return meet(shared, above_same, above_any, loop_of), list(dict.fromkeys([*note_same, *note_any]))


def meet(
    shared: Mapping[str, Sequence[Way]], above_same: Above, above_any: Above, loop_of: Mapping[str, int]
) -> DoubleDeliveries:
    """Find the pairs.

    `shared`: destinations with subscriptions of several channels. `above_same`: channels that lead to a channel by
    deliveries; `above_any`: by deliveries or replies.
    """
    same: list[DoubleDelivery] = []
    child: list[DoubleDelivery] = []
    for target, some in sorted(shared.items()):
        doubles = _same(target, some, above_same, loop_of)
        same += doubles
        child += _child(target, some, above_any, loop_of, {(double.first, double.second) for double in doubles})
    return DoubleDeliveries(tuple(same), tuple(child))


def _above(engine: Engine, pairs: Iterable[tuple[str, str]], channels: Iterable[str]) -> tuple[Above, list[str]]:
    pairs = sorted(pairs)
    ids = sorted({id_ for pair in pairs for id_ in pair})
    places = {id_: place for place, id_ in enumerate(ids)}
    led_to = {end for _, end in pairs}
    starts = sorted(id_ for id_ in channels if id_ in led_to)
    if not starts:
        return {}, []
    backwards = Graph.of(len(ids), [(places[end], places[start]) for start, end in pairs])
    hops = bounded(engine.hops(backwards, [places[id_] for id_ in starts[:STARTS_MAX]]))
    above = {
        ids[start]: {ids[vertex]: depth for vertex, depth in zip(vertices.tolist(), depths.tolist(), strict=True)}
        for start, vertices, depths in hops
    }
    return above, limit(len(above), len(starts))


def bounded(hops: Iterable[tuple[int, Ints, Ints]]) -> list[tuple[int, Ints, Ints]]:
    """Returns the hops of an engine, until they exceed STEPS_MAX in total."""
    kept = []
    steps = 0
    for hop in hops:
        kept.append(hop)
        steps += len(hop[1])
        if steps > STEPS_MAX:
            break
    return kept


def limit(checked: int, starts: int) -> list[str]:
    """Returns a sentence if not every start was searched."""
    if checked == starts:
        return []
    return [f"Double delivery over several channels was checked from {checked} of {starts}."]


def _same(target: str, some: Sequence[Way], above: Above, loop_of: Mapping[str, int]) -> list[DoubleDelivery]:
    """Returns each pair with the nearest channel where both paths begin."""
    # The channels differ, so without a channel above one of them, no two paths begin in the same channel.
    if not any(way.channel in above for way in some):
        return []
    origins: dict[str, list[tuple[Way, int]]] = defaultdict(list)
    for way in sorted(some, key=_by_id):
        origins[way.channel].append((way, 0))
        for channel, depth in above.get(way.channel, {}).items():
            origins[channel].append((way, depth))
    nearest: dict[tuple[str, str], DoubleDelivery] = {}
    for channel, ways in sorted(origins.items()):
        for place, (first, near) in enumerate(ways[: 2 * LISTED_MAX]):
            for second, far in ways[place + 1 : 2 * LISTED_MAX]:
                # In a loop every member is above every other: each pair would only repeat that there is a loop.
                if first.channel == second.channel or _one_loop(first, second, loop_of):
                    continue
                pair = (first.id, second.id)
                meeting = DoubleDelivery(target, *pair, channel, max(near, far))
                if pair not in nearest or meeting.hops < nearest[pair].hops:
                    nearest[pair] = meeting
    return [nearest[pair] for pair in sorted(nearest)][:LISTED_MAX]


def _child(
    target: str, some: Sequence[Way], above: Above, loop_of: Mapping[str, int], checked: set[tuple[str, str]]
) -> list[DoubleDelivery]:
    """Returns pairs where the first subscription's channel leads to the second's."""
    of_channel: dict[str, list[Way]] = defaultdict(list)
    for way in some:
        of_channel[way.channel].append(way)
    doubles = []
    for second in sorted(some, key=_by_id):
        ways = above.get(second.channel, {})
        for channel in sorted(of_channel.keys() & ways.keys()):
            for first in of_channel[channel]:
                pair = (first.id, second.id)
                # A pair that gets the same event twice is already reported, which is the stronger statement.
                if pair in checked or pair[::-1] in checked or _one_loop(first, second, loop_of):
                    continue
                doubles.append(DoubleDelivery(target, *pair, channel, ways[channel]))
                if len(doubles) == LISTED_MAX:
                    return doubles
    return doubles


def _by_id(way: Way) -> str:
    return way.id


def _one_loop(first: Way, second: Way, loop_of: Mapping[str, int]) -> bool:
    loop = loop_of.get(first.channel)
    return loop is not None and loop == loop_of.get(second.channel)
