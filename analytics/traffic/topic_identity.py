"""Topics that are not what they were when they were read last: deleted and made anew, or cut by Kafka.

    remembered by the tables: topic -> id          Kafka now: topic -> id, first offset, end
    remembered by Spark:      topic -> offsets               |
                         \\-------------- judge ------------/--> made anew (read from the start), sentences about loss

Kafka gives every topic an id, and another one when it is made again under its name: that tells for sure. Tables of an
older version know no ids, nor does a Kafka before 2.8: there a topic counts as made anew when it ends before what was
read, and one that has grown past that place in every partition meanwhile cannot be told from the old one. Pure.
Refuses to ask Kafka and to touch the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from knative.errors import PenstockError

Offsets = Mapping[str, Mapping[int, int]]  #: topic -> partition -> the next offset to read


@dataclass(frozen=True, slots=True)
class TopicNow:
    """What Kafka says of a topic. `id` "" = it gives none; `bounds`: partition -> first offset and end."""

    id: str
    bounds: Mapping[int, tuple[int, int]] = field(default_factory=dict)


#: Asks Kafka for those of these topics that are there; with True for their bounds as well. Raises NotReadyError.
TopicProbe = Callable[[Collection[str], bool], Mapping[str, TopicNow]]


class TopicReplacedError(PenstockError):
    """These topics became others while they were read; what was read of them last is not in the tables."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`replaced`: topics to read from their start. `notes`: a sentence for each thing that somebody must know."""

    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def judge(ids: Mapping[str, str], done: Offsets, planned: Offsets, now: Mapping[str, TopicNow]) -> Judgement:
    """`ids` and `done`: of what is in the tables; `planned`: of a batch that was begun after it, else the same."""
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
    """The topics that have another id than expected; those without one, then or now, are not among them."""
    return [topic for topic, one in sorted(now.items()) if one.id and expected.get(topic) and expected[topic] != one.id]


def _cut(read: Mapping[int, int], found: TopicNow) -> bool:
    """Whether a partition ends before what was read of it, or is there no more."""
    if not found.bounds:
        return False
    return any(offset > found.bounds.get(number, (0, 0))[1] for number, offset in read.items())


_REPLACED = (
    "Topic {topic} was deleted and made anew since it was read last: it is read from its start. What was counted stays;"
    " what the old one held beyond that is gone."
)
_SHORTER = (
    "Topic {topic} ends before what was read of it, so it was made anew: it is read from its start. What was counted"
    " stays; what the old one held beyond that is gone."
)
_TRUNCATED = (
    "Topic {topic} is the same and ends before what was read of it: Kafka has lost records of it, as after an unclean"
    " leader election. What was written since at their offsets is not counted; the tier of deltas has it."
)
_EXPIRED = "Up to {gone} records of topic {topic} were deleted by Kafka (retention) before they were counted."
