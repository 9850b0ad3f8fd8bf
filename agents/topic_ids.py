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
from typing import Any

import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from knative.contract import Subscription
from knative.names import topic_id

log = structlog.get_logger(__name__)

_EVERY_S = 5.0
_LIMIT_S = 10.0


class Suspicions:
    """Pure: which subscriptions have lost their topic, by answers that agree."""

    def __init__(self) -> None:
        self._strange: dict[str, str] = {}  # uid -> the other id that was seen last

    def judge(self, subscriptions: Collection[Subscription], ids: Mapping[str, str]) -> dict[str, str]:
        """uid -> why, of those for which this answer (topic -> id) says the same as the one before."""
        strange = {
            one.uid: found
            for one in subscriptions
            if one.topic_id and (found := ids.get(one.topic, "")) and found != one.topic_id
        }
        sure = {uid for uid, found in strange.items() if self._strange.get(uid) == found}
        self._strange = strange
        return {
            one.uid: f"topic {one.topic} was deleted and made anew (id {one.topic_id}, now {strange[one.uid]})"
            for one in subscriptions
            if one.uid in sure
        }


class TopicIds:
    """Asks Kafka and tells. Event loop only; `start` once, `stop` once."""

    def __init__(
        self,
        kafka: Mapping[str, Any],
        subscriptions: Callable[[], Collection[Subscription]],
        halt: Callable[[str, str], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """`subscriptions`: those at work now. `halt(uid, why)` is called again for as long as it is so."""
        self._kafka = kafka
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

    async def _watch(self) -> None:
        admin: AdminClient | None = None
        suspicions = Suspicions()
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                asked = {one.topic for one in self._subscriptions() if one.topic_id}
                if asked:
                    admin = admin or AdminClient({"log_level": 2, **self._kafka})
                    ids = await _ids(admin, asked)
                    for uid, why in suspicions.judge(self._subscriptions(), ids).items():
                        self._halt(uid, why)
        except Exception as problem:
            self._fatal(problem)


async def _ids(admin: AdminClient, topics: Collection[str]) -> dict[str, str]:
    """The id of each topic that Kafka knows; nothing of those for which it does not answer."""
    found: dict[str, str] = {}
    for topic, future in admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_LIMIT_S).items():
        try:
            described = await asyncio.wait_for(asyncio.wrap_future(future), 2 * _LIMIT_S)
        except (KafkaException, TimeoutError) as problem:
            log.debug("a topic's id is not known", topic=topic, reason=str(problem))
        else:
            found[topic] = topic_id(described.topic_id)
    return found
