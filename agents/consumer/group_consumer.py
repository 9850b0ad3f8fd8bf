"""A Kafka client that is a member of a group. It finds each loss of its membership, and may be outdated by changed
credentials.

librdkafka reports that a session was lost, but not while it rebalances: then it joins again, and keeps the partitions
that were not to be revoked, although others may have owned them meanwhile. The member id shows it: there is none until
the group is joined again, and then another one. So it is compared at each rebalance, and before each commit.

A commit that is waited for takes as long as the client tries to reach Kafka, which can be minutes. That is right while
Kafka is away. But once the credentials have changed, Kafka may refuse the former ones for good, and the next client
waits for this one. Then the commit is given up after some seconds, and so is each later one.

A commit inside a callback cannot be given up: a call from another thread waits for ever while the first one polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tables.kafka.connection.live_settings import present

_OUTDATED_S = 5.0  # for a commit of an outdated client
_LOOK_S = 0.1
_UNSUBSCRIBE_S = 2.0  # local work of the client; Kafka is not asked

_RebalanceCallback = Callable[[Consumer, list[TopicPartition]], None]
_AssignCallback = Callable[["GroupConsumer", list[TopicPartition]], None]


class GroupConsumer(Consumer):
    """Used by one thread, but a commit that was given up goes on in another."""

    def __init__(self, settings: Mapping[str, Any], kafka: Mapping[str, Any], used: Mapping[str, Any]) -> None:
        """`kafka`: librdkafka client settings, which may be replaced. `used`: those that `settings` were made with."""
        super().__init__(dict(settings))
        self._kafka = kafka
        self._used = used
        self._given_up: threading.Thread | None = None
        self._polls = self._ended = False
        self._member_id: str | None = None  # with which it got its partitions; None: it has none
        self._expelled = False  # a check has found that they are lost
        #: Within `on_assign`: its session has ended since the last one, while it had no partitions.
        self.expelled_idle = False

    @property
    def outdated(self) -> bool:
        """Another client must replace it, because its credentials have changed."""
        return present(self._kafka) is not self._used

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
            problem = "the session ended during a rebalance: all partitions are lost"
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, problem))

    def poll(self, *args: Any, **options: Any) -> Any:
        """As `Consumer.poll`; callbacks come within it, and within the next."""
        return self._polled(super().poll, *args, **options)

    def consume(self, *args: Any, **options: Any) -> Any:
        """As `Consumer.consume`."""
        return self._polled(super().consume, *args, **options)

    def _polled(self, poll: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._polls = True
        try:
            messages = poll(*args, **options)
        finally:
            self._polls = False
        if self._expelled and not self._ended:  # a commit has found it: it was reported in this `poll`, or will not be
            self._check_member()
            self._expelled = False
        return messages

    def commit(self, *args: Any, **options: Any) -> Any:
        """Like `Consumer.commit`. A synchronous commit may be given up, which is reported as a time-out. When all
        partitions are lost, it raises KafkaException."""
        if self._hangs:  # every other call would wait for it
            raise _timed_out()
        self._check_member()
        if self._polls or options.get("asynchronous", True):
            return super().commit(*args, **options)
        results: list[Any] = []
        problems: list[BaseException] = []

        def call() -> None:
            try:
                results.append(Consumer.commit(self, *args, **options))
            except Exception as problem:  # raised by the thread that waits
                problems.append(problem)

        thread = threading.Thread(target=call, name="commit", daemon=True)
        thread.start()
        left_s = _OUTDATED_S
        while thread.is_alive():
            thread.join(_LOOK_S)
            if self.outdated:
                left_s -= _LOOK_S
            if left_s <= 0 and thread.is_alive():
                self._given_up = thread
                raise _timed_out()
        if problems:
            raise problems[0]
        return results[0]

    @property
    def _hangs(self) -> bool:
        return self._given_up is not None and self._given_up.is_alive()

    def leave(self) -> None:
        """Leave the group at once, after all partitions were released. A static member that only closes its client is
        in it until its session ends."""
        self._ended = True
        self.unsubscribe()
        until = time.monotonic() + _UNSUBSCRIBE_S
        while self.assignment() and time.monotonic() < until:
            self.poll(0.02)

    def end(self, *, at_once: bool = True) -> None:
        """Close it. Not `at_once`, or if a commit was given up: in a thread of its own, because `close` waits until the
        last commit has failed, which can take minutes."""
        self._ended = True
        if at_once and not self._hangs:
            self._close()
        else:
            threading.Thread(target=self._end, name="closing", daemon=True).start()

    def _end(self) -> None:
        if self._given_up is not None:  # it uses the client
            self._given_up.join()
        self._close()

    def _close(self) -> None:
        # It may have joined again. The next client would take its place without a rebalance, and partitions that it was
        # to revoke, for others to get when it joins again, would have no owner.
        if self._expelled:
            self.leave()
        self.close()


def _timed_out() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "a commit with credentials that have changed was given up"))
