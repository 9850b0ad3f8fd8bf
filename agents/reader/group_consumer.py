"""A Kafka client that is a member of a group. It finds each loss of its membership.

librdkafka reports that a session was lost, but not while it rebalances: then it joins again, and keeps the partitions
that were not to be revoked, although others may have owned them meanwhile. The member id shows it: there is none until
the group is joined again, and then another one. So it is compared at each rebalance, and before each commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_UNSUBSCRIBE_S = 2.0  # local work of the client; Kafka is not asked

#: For each turn of the reader: `super()` makes two objects in a call, which is dear where an event comes alone.
_poll, _consume = Consumer.poll, Consumer.consume

_RebalanceCallback = Callable[[Consumer, list[TopicPartition]], None]
_AssignCallback = Callable[["GroupConsumer", list[TopicPartition]], None]


class GroupConsumer(Consumer):
    """Used by one thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(dict(settings))
        self._ended = False
        self._member_id: str | None = None  # with which it got its partitions; None: it has none
        self._expelled = False  # a check has found that they are lost
        #: Within `on_assign`: its session has ended since the last one, while it had no partitions.
        self.expelled_idle = False

    def follow(
        self, topic: str, on_assign: _AssignCallback, on_revoke: _RebalanceCallback, on_lost: _RebalanceCallback
    ) -> None:
        """Subscribe to one topic, with the callbacks of `Consumer.subscribe`. After `end` none is called. When all
        partitions are lost and librdkafka does not report it, `poll` and `consume` raise KafkaException."""

        def assigned(consumer: Consumer, places: list[TopicPartition]) -> None:
            self.expelled_idle = False
            if not self.assignment():
                former, self._member_id = self._member_id, self.memberid() or ""  # "": it is none any more
                self.expelled_idle = former not in (None, self._member_id)
            self._check_member()
            on_assign(self, places)

        def revoked(consumer: Consumer, places: list[TopicPartition]) -> None:
            self._check_member()
            on_revoke(consumer, places)
            if len(self.assignment()) > len(places):  # a drain may take longer than a session
                self._check_member()

        def lost(consumer: Consumer, places: list[TopicPartition]) -> None:
            self._member_id = None
            on_lost(consumer, places)

        def until_the_end(callback: _RebalanceCallback) -> _RebalanceCallback:
            def called(consumer: Consumer, places: list[TopicPartition]) -> None:
                if not self._ended:
                    try:
                        callback(consumer, places)
                    except BaseException:
                        self._ended = True  # more may come within the same `poll`
                        raise

            return called

        self.subscribe(
            [topic],
            on_assign=until_the_end(assigned),
            on_revoke=until_the_end(revoked),
            on_lost=until_the_end(lost),
        )

    def _check_member(self) -> None:
        if self._member_id is not None and self.memberid() != self._member_id:
            self._expelled = True
            problem = "the session ended during a rebalance, so all partitions are lost"
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, problem))

    def poll(self, timeout_s: float = -1) -> Any:
        """Does as `Consumer.poll`; callbacks come within it, and within the next."""
        message = _poll(self, timeout_s)
        if self._expelled:
            self._report()
        return message

    def consume(self, most: int = 1, timeout_s: float = -1) -> Any:
        """Does as `Consumer.consume`."""
        messages = _consume(self, most, timeout_s)
        if self._expelled:
            self._report()
        return messages

    def _report(self) -> None:
        if not self._ended:  # a commit has found it: it was reported in this `poll`, or will not be
            self._check_member()
            self._expelled = False

    def commit(self, *args: Any, **options: Any) -> Any:
        """Does as `Consumer.commit`. When all partitions are lost, it raises KafkaException."""
        self._check_member()
        return super().commit(*args, **options)

    def leave(self) -> None:
        """Leave the group at once, after all partitions were released. A static member that only closes its client is
        in it until its session ends."""
        self._ended = True
        self.unsubscribe()
        until = time.monotonic() + _UNSUBSCRIBE_S
        while self.assignment() and time.monotonic() < until:
            self.poll(0.02)

    def end(self, *, at_once: bool = True) -> None:
        """Close it. Not `at_once`: in a thread of its own, because `close` waits until the last commit has failed,
        which can take minutes."""
        self._ended = True
        if at_once:
            self._close()
        else:
            threading.Thread(target=self._close, name="closing", daemon=True).start()

    def _close(self) -> None:
        # It may have joined again. The next client would take its place without a rebalance, and partitions that it was
        # to revoke, for others to get when it joins again, would have no owner.
        if self._expelled:
            self.leave()
        self.close()
