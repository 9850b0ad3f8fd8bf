"""Offsets of many groups: what a group's error means for it and for the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from controller.kafka.offsets import Offsets
from tables.kafka.admin.answers import GroupOffset, TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotYet

Answers = dict[str, dict[TopicAndPartition, GroupOffset] | KafkaFailed]

LOADING, DENIED = KafkaNotYet("its coordinator is loading"), KafkaDenied("not allowed")


def offsets_after(*rounds: dict[str, KafkaFailed], limit_s: float = 60.0) -> tuple[Offsets, list[list[str]]]:
    """Kafka fails for these groups in each round, and in the last one for ever. Also the groups of each request."""
    asked: list[list[str]] = []

    def committed_or_why(groups: dict[str, list[TopicAndPartition]]) -> Answers:
        problems = rounds[min(len(asked), len(rounds) - 1)]
        asked.append(sorted(groups))
        return {
            group: problems.get(group, {place: GroupOffset(7, "") for place in places})
            for group, places in groups.items()
        }

    admin = SimpleNamespace(groups=SimpleNamespace(committed_or_why=committed_or_why))
    return Offsets(cast(KafkaAdmin, admin), limit_s), asked


def committed_of(offsets: Offsets, groups: str) -> tuple[dict[str, dict[int, int]], dict[str, KafkaFailed]]:
    problems: dict[str, KafkaFailed] = {}
    return offsets.committed_by({group: ("t", range(2)) for group in groups}, problems.__setitem__), problems


def test_groups_that_are_not_ready_are_asked_again_together() -> None:
    offsets, asked = offsets_after({"a": LOADING, "b": LOADING, "d": DENIED}, {"a": LOADING}, {})
    committed, problems = committed_of(offsets, "abcd")
    assert committed == {group: {0: 7, 1: 7} for group in "abc"}
    assert problems == {"d": DENIED}
    assert asked == [["a", "b", "c", "d"], ["a", "b"], ["a"]]


def test_groups_that_are_never_ready_hide_no_other() -> None:
    offsets, asked = offsets_after({"a": LOADING, "c": LOADING}, limit_s=0.3)
    committed, problems = committed_of(offsets, "abc")
    assert committed == {"b": {0: 7, 1: 7}}
    assert problems == {"a": LOADING, "c": LOADING}
    assert len(asked) > 1
