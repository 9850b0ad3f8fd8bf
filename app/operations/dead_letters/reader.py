"""Reads dead letters from DLQ topics. Joins no group and commits nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from app.operations.dead_letters.letters import DeadLetter, Selection
from knative.errors import PenstockError, UsageError
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader

_NUMBER = re.compile("[0-9]{1,19}")

Starts = Callable[[str, Mapping[int, int]], None]


def read_letters(
    kafka: Mapping[str, Any],
    topics: Iterable[str],
    selection: Selection,
    missing: Callable[[str], None],
    starts: Starts | None = None,
) -> Iterator[DeadLetter]:
    """Yields the selected letters, in offset order for each partition.

    Calls `missing` with each topic that does not exist, and `starts` with the first offsets of each topic that does.
    """
    for topic in dict.fromkeys(topics):
        try:
            reader = TopicReader(topic, kafka)
        except NoSuchTopicError:
            missing(topic)
            continue
        with reader:
            if starts is not None:
                starts(topic, {number: low for number, (low, _) in reader.ranges.items()})
            since_s = selection.since_s
            records = reader.stored() if since_s is None else reader.since(int(since_s * 1000))
            for record in records:
                letter = DeadLetter(record)
                if selection.takes(letter):
                    yield letter


def read_named(kafka: Mapping[str, Any], refs: Sequence[str]) -> Iterator[DeadLetter]:
    """Yields the letters with these references. Raises UsageError for an invalid one, PenstockError if one is gone."""
    places = [read_ref(ref) for ref in refs]
    for topic, named in groupby(places, key=lambda place: place[0]):
        with TopicReader(topic, kafka) as reader:
            for _, partition, offset in named:
                record = reader.at(partition, offset)
                if record is None:
                    ref = f"{topic}/{partition}/{offset}"
                    raise PenstockError(
                        f"There is no letter {ref}. Retention may have removed it.", "See `penstock dlq list --each`."
                    )
                yield DeadLetter(record)


def read_ref(text: str) -> tuple[str, int, int]:
    """Returns topic, partition, offset of TOPIC/PARTITION/OFFSET. Raises UsageError."""
    topic, *place = text.rsplit("/", 2)
    if not topic or len(place) != 2 or not all(_NUMBER.fullmatch(part) for part in place):
        raise UsageError(
            f"{text!r} is not a valid reference to a letter.",
            "Write TOPIC/PARTITION/OFFSET, as `penstock dlq list --each -o name` does.",
        )
    return topic, int(place[0]), int(place[1])
