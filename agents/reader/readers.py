"""The readers of one process: one for each topic that has a member here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agents.bounded_wait import at_most
from agents.config import DeliveryConfig
from agents.offsets.group_offsets import GroupOffsets
from agents.offsets.late_commits import Reported
from agents.reader.member import Member, MemberListener
from agents.reader.members import Members
from knative.contract.kafka_names import fanout_group
from knative.contract.records import Subscription
from knative.ports import Observe
from tables.kafka.admin.group_client import GroupClient
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.timing import CLOSE_S


class Readers:
    """Event loop only."""

    def __init__(
        self,
        config: DeliveryConfig,
        observe: Observe,
        fatal: Callable[[BaseException], None],
        reported: Reported = lambda _: {},
    ) -> None:
        self._config = config
        self._observe = observe
        self._fatal = fatal
        self._admin = KafkaAdmin(config.kafka)
        # A confirmed assignment holds for as long: what is sent until then arrives before others own anything.
        self._client = GroupClient(config.kafka, f"{config.instance}-offsets", arrive_s=config.expelled_after_s / 2)
        self._group_offsets = GroupOffsets(self._admin, self._client, observe, reported)
        self._topics: dict[str, Members] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def member(self, subscription: Subscription, owner: MemberListener) -> Member:
        """Returns the member of its topic for this Subscription or Trigger."""
        name = subscription.unique_name.replace(":", "_")
        client_name = f"{self._config.instance}-{subscription.namespace}-{name}"
        return Member(subscription, client_name, self._config, owner, self._join, self._group_offsets, self._observe)

    def _join(self, member: Member) -> Members:
        topic, config = member.subscription.topic, self._config
        members = self._topics.get(topic)
        if members is None:
            group, client_name = fanout_group(config.instance, topic), f"{config.instance}-{topic}"
            members = self._topics[topic] = Members(
                topic, group, client_name, config, self._group_offsets, self._observe, self._fatal, self._emptied
            )
        members.join(member)
        return members

    async def stop(self) -> None:
        """Wait, up to a limit, until the readers that have no members any more have left their groups."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=3 * CLOSE_S)
        await at_most(self._client.close(), 3 * CLOSE_S)
        self._admin.close()

    def _emptied(self, members: Members) -> None:
        if self._topics.get(members.topic) is members:
            del self._topics[members.topic]
        task = asyncio.get_running_loop().create_task(members.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
