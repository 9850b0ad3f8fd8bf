"""A consumer's membership in its group: one client after another, what ends one, and how long a join may take."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from agents.timing import RETRY_S, STEADY_S
from knative.backoff import doubling_s
from tables.kafka.errors import KafkaFailed

#: Time for the others to commit what they know, without having joined: some 0.3 s after Kafka answers. One that is late
#: costs duplicates, as a crash does.
HANDOVER_S = 2.0
HEARTBEAT_MAX_S = 1.2
RECONNECT_MAX_S = 1.0
#: After that, an attempt to connect is given up for the next. A frozen broker holds some 50 new connections and drops
#: the packets that would open more. The system sends such a packet again after 1, 3, 7, 15 and 31 s, so an attempt
#: could find a broker up to 16 s after that is back. With this limit no two packets are more than 2 s apart.
CONNECT_MAX_S = 4 * RECONNECT_MAX_S


def is_fatal(error: KafkaError) -> bool:
    """The client can never be used again. A lost answer to a join is enough for that: Kafka takes the client that joins
    again for another one with the same instance id, and fences the first. An error that comes as a message does not say
    that it is fatal, so the codes are checked too."""
    return error.fatal() or error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def instance_id(client_name: str) -> str:
    """Returns a new name for a static member. A client that replaces a failed one keeps its name, and gets its
    assignment without a rebalance. After a fatal error it needs a new one: Kafka may have taken partitions from the
    former member, for others to get when that joins again. It never does, and nobody would own them."""
    return f"{client_name}-{uuid.uuid4().hex[:12]}"


def run_sessions(
    session: Callable[[], None],
    stop: threading.Event,
    failed: Callable[[KafkaException | KafkaFailed, bool], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run `session`, the life of one client, again and again until `stop` is set. If it raises an error of Kafka, call
    `failed` with that and whether the next client needs a new `instance_id`, and wait. Other errors are raised."""
    waits_s = doubling_s(*RETRY_S)
    while not stop.is_set():
        began = clock()
        try:
            session()
        except (KafkaException, KafkaFailed) as problem:
            failed(problem, isinstance(problem, KafkaException) and is_fatal(problem.args[0]))
            if clock() - began > STEADY_S:
                waits_s = doubling_s(*RETRY_S)
            stop.wait(next(waits_s))


class JoinWatch:
    """Follows how the clients of one consumer join their group. All times are monotonic seconds.

    Finds a client that never joins: after a Kafka that was frozen, librdkafka may wait for ever for an answer. Finds
    also the joins before which Kafka may have been out of reach for all: then other members have lost partitions
    without a last commit, and know more of them than Kafka.
    """

    def __init__(self, group_protocol: str, session_timeout_s: float, limit_s: float) -> None:
        # The protocol `consumer` does not report an assignment without partitions.
        self._watches = group_protocol == "classic"
        self._session_timeout_s = session_timeout_s
        self._limit_s = limit_s
        self._since: float | None = None  # over all clients that have tried
        self._client_since: float | None = None
        self._revoked = False  # an assignment follows at once, and the client joins again only after that
        self._expelled = False
        #: Until then, others may still commit what they know. It outlives the client.
        self.handover_until = 0.0

    def joining(self, now: float) -> None:
        """The client joins, or joins again."""
        self._client_since, self._revoked = now, False
        if self._since is None:
            self._since = now

    def revoked(self) -> None:
        """Partitions were revoked."""
        self._revoked = True

    def expelled(self) -> None:
        """The session of a client has ended, or the client has failed."""
        self._expelled = True

    def joined(self, now: float) -> None:
        """The client was given an assignment, with partitions or without."""
        # Longer than a session: if Kafka was out of reach all the time, the others have lost theirs.
        late = self._watches and self._since is not None and now - self._since > self._session_timeout_s
        if late or self._expelled:
            self.handover_until = now + HANDOVER_S
        self._expelled, self._since, self._client_since = False, None, None
        if self._revoked:
            self.joining(now)

    def rests(self, now: float) -> bool:
        """The client is not joining, and the time for hand-overs is over."""
        return self._client_since is None and not self._revoked and now >= self.handover_until

    def failed(self, now: float) -> bool:
        """Returns whether a new client must replace it."""
        return self._watches and self._client_since is not None and now - self._client_since > self._limit_s
