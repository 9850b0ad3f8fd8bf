"""What Kafka may have of an older commit, because it got that late. Pure.

    this worker commits 488                  an older commit, from before the partition came here, arrives: Kafka has 38
    who owns the partition looks             38, and 488 was confirmed -> commits 488 again
    who opens it next                        38, and its last owner has reported 488 -> begins at 488, and commits that

The groups of Subscriptions and Triggers have no members, and Kafka accepts what is committed for such a group from
anyone, at any time. Requests of workers arrive soon or never (`tables/kafka/admin/punctual_client`), unless a proxy on
their way holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.offsets.offset_metadata import read
from agents.offsets.offset_tracker import OffsetTracker
from knative.contract.records import Subscription
from tables.kafka.admin.answers import GroupOffset

#: Partition -> the committed offset that an owner has reported last; also of one that is gone.
Reported = Callable[[Subscription], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a group begins in a partition. Not `committed`: Kafka has none, or an older one, and gets this one."""

    offset: int
    metadata: str | None
    committed: bool = True


def start_at(committed: GroupOffset, reported: int | None) -> Start:
    """Returns where to begin, if Kafka has `committed` and the last owner has `reported` that."""
    if reported is not None and reported > committed.offset:
        return Start(reported, "", committed=False)
    return Start(committed.offset, committed.metadata)


def is_older(committed: GroupOffset, tracker: OffsetTracker) -> bool:
    """Returns whether Kafka has less than this tracker, all of which it has confirmed."""
    if committed.offset != tracker.committable:
        return committed.offset < tracker.committable
    metadata = read(committed.offset, committed.metadata)
    return bool(tracker.settled - metadata.settled) or any(
        metadata.attempts.get(offset, 0) < made for offset, made in tracker.attempts.items()
    )
