"""One group whose coordinator does not answer holds up no other."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.kafka.groups import ObservedGroups, OnError, observe_groups
from controller.plan.actions import GroupState
from tables.kafka.admin.answers import GroupInfo
from tables.kafka.errors import KafkaNotYet, KafkaUnavailable


def test_only_the_groups_that_answer_are_known() -> None:
    infos = {"live": GroupInfo("Stable", 2), "empty": GroupInfo("Empty", 0), "loading": GroupInfo("Empty", 0)}
    asked: list[str] = []

    def describe(groups: Collection[str], on_error: OnError) -> Mapping[str, GroupInfo]:
        on_error("away", KafkaUnavailable("describing group away: Kafka does not answer"))
        return {group: infos[group] for group in groups if group in infos}

    def committed(groups: Collection[str], on_error: OnError) -> Mapping[str, dict[int, int]]:
        asked.extend(groups)
        on_error("loading", KafkaNotYet("reading the offsets of group loading: its coordinator loads"))
        return {group: {0: 7} for group in groups if group != "loading"}

    observed = observe_groups(describe, committed, ["live", "away", "none"], ["away", "loading", "empty"])
    assert observed == ObservedGroups(
        states={"live": GroupState.LIVE, "away": GroupState.UNKNOWN, "none": GroupState.ABSENT},
        members={"live": 2, "none": 0},
        offsets={"empty": {0: 7}},
        unknown={
            "away": "describing group away: Kafka does not answer",
            "loading": "reading the offsets of group loading: its coordinator loads",
        },
    )
    assert "away" not in asked, "each question to it would take until the time limit"
