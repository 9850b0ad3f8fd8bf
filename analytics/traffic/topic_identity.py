"""Detects topics that changed since they were last read: deleted and created again, or truncated by Kafka. Pure.

    remembered by the tables: topic -> id          Kafka now: topic -> id, first offset, end
    remembered by Spark:      topic -> offsets               |
                         \\-------------- judge ------------/--> replaced (read from the start), sentences about loss

Kafka gives every topic an id, and a new id when a topic of the same name is created again, so a changed id is certain.
Tables of an older version have no ids, nor has a Kafka before 2.8. There a topic counts as replaced when it ends before
the last offset that was read. One that has since grown past that offset in every partition looks like the old topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from knative.errors import PenstockError

Offsets = Mapping[str, Mapping[int, int]]  #: topic -> partition -> the next offset to read


@dataclass(frozen=True, slots=True)
class TopicNow:
    """What Kafka reports of a topic. `id` "" = Kafka gives none; `bounds`: partition -> first offset and end."""

    id: str
    bounds: Mapping[int, tuple[int, int]] = field(default_factory=dict)


#: Queries Kafka for those of these topics that exist; with True also for their bounds. Raises NotReadyError.
TopicProbe = Callable[[Collection[str], bool], Mapping[str, TopicNow]]


class TopicReplacedError(PenstockError):
    """These topics were replaced while they were read; the last batch of them is not in the tables."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`replaced`: topics to read from their start. `notes`: one sentence for each thing that a user must know."""

    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def judge(ids: Mapping[str, str], done: Offsets, planned: Offsets, now: Mapping[str, TopicNow]) -> Judgement:
    """Compares what was read with Kafka now.

    `ids` and `done` describe the content of the tables; `planned` describes a batch that was begun after it, or equals
    `done`.
    """
    replaced, notes = [], []
    for topic, found in sorted(now.items()):
        before = ids.get(topic, "")
        if before and found.id:
            if before != found.id:
                replaced.append(topic)
                notes.append(_REPLACED.format(topic=topic))
                continue
        elif _cut(planned.get(topic, {}), found):
            replaced.append(topic)
            notes.append(_SHORTER.format(topic=topic))
            continue
        if _cut(done.get(topic, {}), found):
            notes.append(_TRUNCATED.format(topic=topic))
        gone = sum(max(0, found.bounds[p][0] - at) for p, at in done.get(topic, {}).items() if p in found.bounds)
        if gone:
            notes.append(_EXPIRED.format(topic=topic, gone=gone))
    return Judgement(tuple(replaced), tuple(notes))


def changed(expected: Mapping[str, str], now: Mapping[str, TopicNow]) -> list[str]:
    """The topics whose id differs from the expected one; topics without an id, then or now, are left out."""
    return [topic for topic, one in sorted(now.items()) if one.id and expected.get(topic) and expected[topic] != one.id]


def _cut(read: Mapping[int, int], found: TopicNow) -> bool:
    """Whether a partition ends before an offset that was already read, or no longer exists."""
    if not found.bounds:
        return False
    return any(offset > found.bounds.get(number, (0, 0))[1] for number, offset in read.items())


_REPLACED = (
    "Topic {topic} was deleted and created again: it is read from its start. What was counted is kept; the records of"
    " the old topic that were not counted are lost."
)
_SHORTER = (
    "Topic {topic} ends before the last offset read, so it was created again: it is read from its start. What was"
    " counted is kept; the records of the old topic that were not counted are lost."
)
_TRUNCATED = (
    "Topic {topic} is the same but ends before the last offset read: Kafka has lost records, as after an unclean leader"
    " election. New records at those offsets are not counted; the windows from deltas contain them."
)
_EXPIRED = "Up to {gone} records of topic {topic} were deleted by Kafka (retention) before they were counted."
