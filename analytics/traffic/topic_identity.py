"""Detects topics that changed since they were last read: deleted and created again, or truncated by Kafka. Pure.

    remembered by the tables: topic -> id, offsets        Kafka now: topic -> id, first offset, end
                         \\-------------- judge ------------/--> replaced (read from the start), sentences about loss
                         \\------------- to_read -----------/--> offsets of the next batch

Kafka gives every topic an id, and a new id when a topic of the same name is created again, so a changed id is certain.
Tables of an older version have no ids, nor has a Kafka before 2.8. There a topic counts as replaced when it ends before
the last offset that was read. One that has since grown past that offset in every partition looks like the old topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

Offsets = Mapping[str, Mapping[int, int]]  #: topic -> partition -> the next offset to read
Ranges = Mapping[str, Mapping[int, tuple[int, int]]]  #: topic -> partition -> first offset, and the one after the last


@dataclass(frozen=True, slots=True)
class TopicNow:
    """What Kafka reports about a topic. `id` "" = Kafka gives none; `bounds`: partition -> first offset and end."""

    id: str
    bounds: Mapping[int, tuple[int, int]] = field(default_factory=dict)


#: Asks Kafka which of these topics exist, and if True is passed, for their bounds. Raises NotReadyError.
TopicProbe = Callable[[Collection[str], bool], Mapping[str, TopicNow]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What changed in Kafka. `replaced`: topics to read from their start. `notes`: one sentence for each thing that a
    user must know."""

    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def judge(ids: Mapping[str, str], done: Offsets, now: Mapping[str, TopicNow]) -> Judgement:
    """Compares what was read (`ids`, `done`) with Kafka now."""
    replaced, notes = [], []
    for topic, state in sorted(now.items()):
        before = ids.get(topic, "")
        if before and state.id:
            if before != state.id:
                replaced.append(topic)
                notes.append(_REPLACED.format(topic=topic))
                continue
        elif _cut(done.get(topic, {}), state):
            replaced.append(topic)
            notes.append(_SHORTER.format(topic=topic))
            continue
        if _cut(done.get(topic, {}), state):
            notes.append(_TRUNCATED.format(topic=topic))
        gone = sum(max(0, state.bounds[p][0] - at) for p, at in done.get(topic, {}).items() if p in state.bounds)
        if gone:
            notes.append(_EXPIRED.format(topic=topic, gone=gone))
    return Judgement(tuple(replaced), tuple(notes))


def up_to(first: Mapping[str, TopicNow], now: Mapping[str, TopicNow]) -> dict[str, TopicNow]:
    """Returns the topics `now` without what they did not have at the `first` look: a busy system always has more."""
    return {
        topic: replace(
            now[topic],
            bounds={
                number: (start, min(end, then.bounds[number][1]))
                for number, (start, end) in now[topic].bounds.items()
                if number in then.bounds
            },
        )
        for topic, then in first.items()
        if topic in now
    }


def to_read(now: Mapping[str, TopicNow], done: Offsets, most: int) -> Ranges:
    """Returns what is not read yet: at most about `most` records, of each partition the same share; {} = nothing."""
    ranges = {
        (topic, number): (max(done.get(topic, {}).get(number, first), first), end)
        for topic, state in now.items()
        for number, (first, end) in state.bounds.items()
    }
    total = sum(max(0, end - start) for start, end in ranges.values())
    share: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, number), (start, end) in sorted(ranges.items()):
        if start < end:
            count = end - start if total <= most else max(1, (end - start) * most // total)
            share.setdefault(topic, {})[number] = (start, start + count)
    return share


def count(ranges: Ranges) -> int:
    """Returns the number of offsets in the ranges."""
    return sum(end - start for places in ranges.values() for start, end in places.values())


def positions(done: Offsets, ranges: Ranges) -> Offsets:
    """Returns the next offsets to read after these ranges."""
    ends = {topic: {number: end for number, (_, end) in places.items()} for topic, places in ranges.items()}
    return {topic: {**done.get(topic, {}), **ends.get(topic, {})} for topic in {**done, **ends}}


def changed(expected: Mapping[str, str], now: Mapping[str, TopicNow]) -> list[str]:
    """Returns the topics whose id differs from the expected one; topics without an id, then or now, are left out."""
    return [
        topic
        for topic, topic_now in sorted(now.items())
        if topic_now.id and expected.get(topic) and expected[topic] != topic_now.id
    ]


def _cut(read: Mapping[int, int], state: TopicNow) -> bool:
    """Returns whether a partition ends before an offset that was already read, or no longer exists."""
    if not state.bounds:
        return False
    return any(offset > state.bounds.get(number, (0, 0))[1] for number, offset in read.items())


_REPLACED = (
    "Topic {topic} was deleted and created again: it is read from its start. What was counted is kept; the records of"
    " the old topic that were not counted are lost."
)
_SHORTER = (
    "Topic {topic} ends before the last offset that was read, so it was created again, and is read from its start. "
    "What was"
    " counted is kept; the records of the old topic that were not counted are lost."
)
_TRUNCATED = (
    "Topic {topic} is the same but ends before the last offset read: Kafka has lost records, as after an unclean leader"
    " election. New records at those offsets are not counted; the windows from deltas contain them."
)
_EXPIRED = "Up to {gone} records of topic {topic} were deleted by Kafka (retention) before they were counted."
