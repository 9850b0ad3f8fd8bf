"""Halts subscriptions whose topic was deleted and created again, while a process runs or before it started.

    contract: topic id when the start offset was committed     Kafka: topic id now, polled every 5 s
                                 |------- different, twice in a row -------|--> the subscription is halted with an error

A topic that was created again begins at offset 0. Once it has grown past the committed offset, no client notices the
change, and the events below that offset would never be delivered. It takes two answers, because the first one may be
from before a channel was replaced. Without ids (Kafka before 2.8, or an older contract) nothing is checked. Does not
repair anything: an operator decides whether to deliver the new topic from its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import structlog

from agents.timing import SELDOM_S
from knative.contract.records import Subscription
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.kafka.loop_thread import call_in_thread
from tables.timing import ANSWER_S

log = structlog.get_logger(__name__)


class ReplacedTopics:
    """Finds subscriptions whose topic was replaced, from two answers that agree. Pure."""

    def __init__(self) -> None:
        self._mismatched: dict[str, str] = {}  # uid -> the unexpected id in the last answer

    def judge(self, subscriptions: Collection[Subscription], ids: Mapping[str, str]) -> dict[str, str]:
        """Returns uid -> reason, where this answer (topic -> id) shows the same mismatch as the one before."""
        mismatched = {
            subscription.uid: id_
            for subscription in subscriptions
            if subscription.topic_id and (id_ := ids.get(subscription.topic)) and id_ != subscription.topic_id
        }
        confirmed = {uid for uid, id_ in mismatched.items() if self._mismatched.get(uid) == id_}
        self._mismatched = mismatched
        return {
            subscription.uid: f"topic {subscription.topic} was deleted and created again (id "
            f"{subscription.topic_id}, now {mismatched[subscription.uid]})"
            for subscription in subscriptions
            if subscription.uid in confirmed
        }


class TopicIdentity:
    """Polls Kafka for topic ids and halts subscriptions. Event loop only; `start` once, `stop` once."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        subscriptions: Callable[[], Collection[Subscription]],
        halt: Callable[[str, str], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """`subscriptions`: those served now. Calls `halt(uid, why)` at each poll while the mismatch lasts."""
        self._admin = KafkaAdmin(kafka, ANSWER_S)
        self._subscriptions = subscriptions
        self._halt = halt
        self._fatal = fatal
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start polling."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Stop polling and close the client."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)
        try:
            await call_in_thread(self._admin.close, ANSWER_S, "topic-identity")
        except TimeoutError:  # the subscriptions must be drained all the same
            log.warning("the admin client was not closed in time")

    async def _watch(self) -> None:
        suspicions = ReplacedTopics()
        try:
            while True:
                await asyncio.sleep(SELDOM_S)
                asked = {subscription.topic for subscription in self._subscriptions() if subscription.topic_id}
                if asked:
                    ids = await _ids(self._admin, asked)
                    for uid, why in suspicions.judge(self._subscriptions(), ids).items():
                        self._halt(uid, why)
        except Exception as problem:
            self._fatal(problem)


async def _ids(admin: KafkaAdmin, topics: Collection[str]) -> dict[str, str]:
    """Returns the ids by topic. A topic for which Kafka does not answer is left out."""
    try:
        infos = await call_in_thread(partial(admin.describe_topics, topics, _not_known), 2 * ANSWER_S, "topic-identity")
    except TimeoutError:
        log.debug("the ids of the topics are not known", reason="Kafka does not answer")
        return {}
    return {name: topic_info.id for name, topic_info in infos.items()}


def _not_known(topic: str, problem: KafkaFailed) -> None:
    log.debug("the id of the topic is not known", topic=topic, reason=problem.why)
