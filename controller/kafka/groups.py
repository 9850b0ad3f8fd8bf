"""Observes groups, so that one whose coordinator does not answer holds up nothing but itself. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from controller.plan.actions import GroupState
from tables.kafka.admin.answers import GroupInfo
from tables.kafka.errors import KafkaFailed

OnError = Callable[[str, KafkaFailed], None]


@dataclass(frozen=True, slots=True)
class ObservedGroups:
    """What is known of some groups."""

    states: dict[str, GroupState] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)  #: group -> partition -> committed offset
    unknown: dict[str, str] = field(default_factory=dict)  #: group -> why there is nothing of it in the others


def observe_groups(
    describe: Callable[[Collection[str], OnError], Mapping[str, GroupInfo]],
    committed: Callable[[Collection[str], OnError], Mapping[str, dict[int, int]]],
    groups: Collection[str],
    with_offsets: Collection[str],
) -> ObservedGroups:
    """Returns the states and members of `groups`, and what those in `with_offsets` have committed."""
    observed = ObservedGroups()

    def failed(group: str, problem: KafkaFailed) -> None:
        observed.unknown[group] = str(problem)

    # All at once: each of those that do not answer takes until the time limit. Of these the offsets are not asked for.
    described = describe(sorted({*groups, *with_offsets}), failed)
    observed.offsets.update(committed([group for group in with_offsets if group not in observed.unknown], failed))
    for group in groups:
        if group in observed.unknown:
            observed.states[group] = GroupState.UNKNOWN
        else:
            about = described.get(group)
            observed.states[group] = group_state(about)
            observed.members[group] = about.members if about is not None else 0
    return observed


def group_state(group: GroupInfo | None) -> GroupState:
    """Returns the state of a group; None = it does not exist."""
    if group is None:
        return GroupState.ABSENT
    return GroupState.LIVE if group.members or group.state != "Empty" else GroupState.EMPTY
