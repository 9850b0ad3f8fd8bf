"""The states of consumer groups, as the controller sees them."""

from __future__ import annotations

from collections.abc import Collection

from controller.kafka.groups import group_state
from controller.plan.actions import GroupState
from tables.kafka.admin.kafka_admin import KafkaAdmin


def group_states(admin: KafkaAdmin, groups: Collection[str]) -> dict[str, GroupState]:
    described = admin.groups.describe_all(groups)
    return {group: group_state(described.get(group)) for group in groups}
