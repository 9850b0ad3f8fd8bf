"""Looks, every few seconds, whether Kafka still has what it has confirmed, and commits it again if not.

Why it may not: `agents/offsets/late_commits`. The owner would commit again by itself, but only with its next event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from agents.offsets.group_offsets import SET_BACK, SET_BACK_HINT, GroupOffsets
from agents.offsets.late_commits import is_older
from agents.reader.member import Member
from agents.timing import SELDOM_S, TICK_S
from tables.kafka.errors import KafkaFailed

log = structlog.get_logger(__name__)

_APART_S = 2 * TICK_S  # between two members: 1,000 of them take 2 % of a core, in rounds of 20 s


async def look_at_each(members: Sequence[Member], group_offsets: GroupOffsets) -> None:
    """Look until it is cancelled. `members`: a live list."""
    while True:
        for member in list(members):
            await asyncio.sleep(max(_APART_S, SELDOM_S / max(1, len(members))))
            try:
                await look_at(member, group_offsets)
            except KafkaFailed as problem:
                label = member.subscription.label
                log.debug("the committed offsets cannot be read", subscription=label, reason=str(problem))
        if not members:
            await asyncio.sleep(SELDOM_S)


async def look_at(member: Member, group_offsets: GroupOffsets) -> None:
    """Schedule a commit where Kafka has less than this member's last commit. Raises KafkaFailed."""
    # Where something else is to be committed, that corrects it.
    states = {number: state for number, state in member.states.items() if state.tracker.changes == state.committed}
    if not states:
        return
    subscription = member.subscription
    changes = {number: state.tracker.changes for number, state in states.items()}
    committed = await group_offsets.committed(subscription.topic, subscription.group, states)
    for number, state in states.items():
        unchanged = member.states.get(number) is state and state.tracker.changes == changes[number]
        offset = committed.get(number)  # None: the group was deleted, and a commit would create it again
        if unchanged and offset is not None and is_older(offset, state.tracker):
            log.warning(
                SET_BACK,
                subscription=subscription.label,
                partition=number,
                committed=offset.offset,
                offset=state.tracker.committable,
                hint=SET_BACK_HINT,
            )
            state.tracker.changes += 1
            member.commits.schedule_commit()
