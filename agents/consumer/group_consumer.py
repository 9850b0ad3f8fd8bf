"""A Kafka client that is a member of a group, and may be outdated by changed credentials.

A commit that is waited for takes as long as the client tries to reach Kafka, which can be minutes. That is right while
Kafka is away. But once the credentials have changed, Kafka may refuse the former ones for good, and the next client
waits for this one. Then the commit is given up after some seconds, and so is each later one.

Not one within a callback: a commit from another thread blocks for ever while the first one polls.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from tables.kafka.live_settings import present

_OUTDATED_S = 5.0  # for a commit of an outdated client
_LOOK_S = 0.1


class GroupConsumer(Consumer):
    """Used by one thread, but a commit that was given up goes on in another."""

    def __init__(self, settings: Mapping[str, Any], kafka: Mapping[str, Any], used: Mapping[str, Any]) -> None:
        """`kafka`: librdkafka client settings, which may be replaced. `used`: those that `settings` were made with."""
        super().__init__(dict(settings))
        self._kafka = kafka
        self._used = used
        self._given_up: threading.Thread | None = None
        self._polls = False

    @property
    def outdated(self) -> bool:
        """Another client must replace it, because its credentials have changed."""
        return present(self._kafka) is not self._used

    def poll(self, *args: Any, **options: Any) -> Any:
        """As `Consumer.poll`; callbacks come within it, and within the next."""
        self._polls = True
        try:
            return super().poll(*args, **options)
        finally:
            self._polls = False

    def consume(self, *args: Any, **options: Any) -> Any:
        """As `Consumer.consume`."""
        self._polls = True
        try:
            return super().consume(*args, **options)
        finally:
            self._polls = False

    def commit(self, *args: Any, **options: Any) -> Any:
        """As `Consumer.commit`. One that is waited for may be given up, which is a time-out."""
        if self._polls or options.get("asynchronous", True):
            return super().commit(*args, **options)
        if self._hangs:
            raise _timed_out()
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

    def end(self, *, at_once: bool = True) -> None:
        """Close it. Not `at_once`, or if a commit was given up: in a thread of its own, because `close` waits until the
        last commit has failed, which can take minutes."""
        if at_once and not self._hangs:
            self.close()
        else:
            threading.Thread(target=self._end, name="closing", daemon=True).start()

    def _end(self) -> None:
        if self._given_up is not None:  # it uses the client
            self._given_up.join()
        self.close()


def _timed_out() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "a commit with credentials that have changed was given up"))
