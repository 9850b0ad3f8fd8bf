"""Topics that are not the ones their subscriptions began with: deleted and made anew, while a process runs or before.

    contract: the topic's id when the start was committed      Kafka: its id now, asked now and then
                                 |------- different, twice in a row -------|--> the subscription is halted, loudly

A topic made anew begins again at offset 0. Where it has grown past a subscription's position no client would notice,
and the events before that position would never be delivered. Asked twice, because an answer that was on its way while a
channel was replaced tells of the past. Kafka before 2.8 has no ids, and a contract may have none: nothing is judged.

Refuses to decide what is to be done about it: people do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from knative.contract.kafka_names import topic_id
from knative.contract.records import Subscription

log = structlog.get_logger(__name__)

_EVERY_S = 5.0
_LIMIT_S = 10.0


class ReplacedTopics:
    """Pure: which subscriptions have lost their topic, by answers that agree."""

    def __init__(self) -> None:
        self._mismatched: dict[str, str] = {}  # uid -> the other id that was seen last

    def judge(self, subscriptions: Collection[Subscription], ids: Mapping[str, str]) -> dict[str, str]:
        """uid -> why, of those for which this answer (topic -> id) says the same as the one before."""
        mismatched = {
            one.uid: found
            for one in subscriptions
            if one.topic_id and (found := ids.get(one.topic, "")) and found != one.topic_id
        }
        sure = {uid for uid, found in mismatched.items() if self._mismatched.get(uid) == found}
        self._mismatched = mismatched
        return {
            one.uid: f"topic {one.topic} was deleted and made anew (id {one.topic_id}, now {mismatched[one.uid]})"
            for one in subscriptions
            if one.uid in sure
        }


class TopicIdentity:
    """Asks Kafka and tells. Event loop only; `start` once, `stop` once."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        subscriptions: Callable[[], Collection[Subscription]],
        halt: Callable[[str, str], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """`subscriptions`: those at work now. `halt(uid, why)` is called again for as long as it is so."""
        self._asker = _Asker(kafka)
        self._subscriptions = subscriptions
        self._halt = halt
        self._fatal = fatal
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """No more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)
        await asyncio.wait_for(asyncio.to_thread(self._asker.close), _LIMIT_S)

    async def _watch(self) -> None:
        suspicions = ReplacedTopics()
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                asked = {one.topic for one in self._subscriptions() if one.topic_id}
                if asked:
                    ids = await _ids(self._asker, asked)
                    for uid, why in suspicions.judge(self._subscriptions(), ids).items():
                        self._halt(uid, why)
        except Exception as problem:
            self._fatal(problem)


class _Asker:
    """One Kafka client, made with the first question. Call it in a thread: making and destroying a client can take
    55 ms each."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._kafka = kafka
        self._admin: AdminClient | None = None

    def ask(self, topics: Collection[str]) -> Mapping[str, Future[Any]]:
        """The answers to come, by topic."""
        if self._admin is None:
            self._admin = AdminClient({"log_level": 2, **self._kafka})
        return self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_LIMIT_S)

    def close(self) -> None:
        """Destroy the client."""
        self._admin = None


async def _ids(asker: _Asker, topics: Collection[str]) -> dict[str, str]:
    """The id of each topic that Kafka knows; nothing of those for which it does not answer."""
    found: dict[str, str] = {}
    for topic, future in (await asyncio.to_thread(asker.ask, topics)).items():
        try:
            described = await asyncio.wait_for(asyncio.wrap_future(future), 2 * _LIMIT_S)
        except (KafkaException, TimeoutError) as problem:
            log.debug("a topic's id is not known", topic=topic, reason=str(problem))
        else:
            found[topic] = topic_id(described.topic_id)
    return found
