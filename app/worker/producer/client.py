"""One librdkafka client of the producer: its life, and how long its records have waited.

    LIVE ------ a fatal error ------> FAILED --------+
     |                                               | its time is over
     +-- replaced, slow or used up -----> RETIRING --+--> PURGING --> CLOSED

A client that is replaced keeps its records. RETIRING gives a slow client a grace period for healthy partitions, and one
that has used up its epochs the time that its records have left; then PURGING fails what is left. Decides when, by the
clock of the caller. The producer's poll thread makes all transitions but that to FAILED.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import structlog
from confluent_kafka import KafkaException, Producer

from app.worker.producer.ages import Waiting

log = structlog.get_logger(__name__)

_PURGE_MIN_S, _PURGE_MAX_S = 1.0, 30.0  # time in which a former client reports the records that it did not store
_REBUILD_S = 1.0  # between two new clients: one without permission to be idempotent fails as soon as it is built
_GENERATIONS = 40  # of waiting records in one time-out: the precision of an age is two generations
_PATIENCE = 0.9  # part of the time-out after which the client is replaced
_GRACE = 0.05  # part of the time-out in which the former client may still get acknowledgements


class ClientState(Enum):
    """What a client is still used for."""

    LIVE = "takes new records"
    FAILED = "unusable: no record of it will be acknowledged any more"
    RETIRING = "replaced; what it has may still be acknowledged"
    PURGING = "what it has fails"
    CLOSED = "every record has been reported, or too late to wait for it"


_S = ClientState

TRANSITIONS: Mapping[ClientState, frozenset[ClientState]] = {
    _S.LIVE: frozenset({_S.FAILED, _S.RETIRING, _S.PURGING}),  # to PURGING: the producer stops
    _S.FAILED: frozenset({_S.PURGING}),
    # To FAILED: the event loop sent a record to it just before it was replaced. That ends as if it had not failed.
    _S.RETIRING: frozenset({_S.FAILED, _S.PURGING}),
    _S.PURGING: frozenset({_S.PURGING, _S.CLOSED}),  # purged more than once, see `wind_up`
    _S.CLOSED: frozenset(),
}


class ProducerClient:
    """A client and its state."""

    __slots__ = ("_built_s", "_timeout_s", "_until_s", "ages", "kafka", "produce", "reason", "state")

    def __init__(self, kafka: Producer, timeout_s: float, now_s: float) -> None:
        """`timeout_s`: how long a record may wait for its acknowledgement. Times are monotonic seconds."""
        self.kafka = kafka
        self.produce = kafka.produce  #: for the hot path
        self.ages = Waiting(timeout_s / _GENERATIONS, now_s)  #: of the records that were sent to this client
        self.state = ClientState.LIVE
        self.reason = ""  #: why it FAILED
        self._timeout_s = timeout_s
        self._built_s = now_s
        self._until_s = now_s  # when PURGING begins, once it is replaced

    def fail(self, reason: str) -> None:
        """It had a fatal error. Either thread."""
        if self.state is _S.LIVE or self.state is _S.RETIRING:
            self.reason = reason
            self.state = _S.FAILED

    def too_slow(self, now_s: float) -> bool:
        """Its oldest record has waited for nearly the whole time-out."""
        return self.ages.oldest_s(now_s) >= _PATIENCE * self._timeout_s

    def rebuild_wait_s(self, now_s: float) -> float:
        """Returns how long to wait before another client is built."""
        return max(0.0, self._built_s + _REBUILD_S - now_s) if self.state is _S.FAILED else 0.0

    def replaced(self, now_s: float, *, slow: bool) -> None:
        """Another client takes all new records. FAILED stays as it is: it gets no grace period."""
        self._until_s = now_s
        if self.state is _S.LIVE:
            self._until_s += _GRACE * self._timeout_s
            if not slow:
                self._until_s += max(0.0, _PATIENCE * self._timeout_s - self.ages.oldest_s(now_s))
            self.state = _S.RETIRING

    def wind_up(self, now_s: float) -> None:
        """One step towards CLOSED, for a client that was replaced. Purges more than once, because the event loop may
        have read the client just before it was replaced, and may add one last record to it."""
        if now_s >= self._until_s:
            self.purge()
        try:
            self.kafka.poll(0)
        except KafkaException as problem:  # repeats the fatal error, once for each time that the client had it
            log.debug("error of a former producer", reason=problem.args[0].str())
        limit_s = _PURGE_MAX_S if len(self.kafka) else _PURGE_MIN_S
        if self.state is _S.PURGING and now_s >= self._until_s + limit_s:
            self.state = _S.CLOSED

    def purge(self) -> None:
        """Fail all its records: the next poll reports them."""
        self.state = _S.PURGING
        self.kafka.purge()


def purge_all(clients: list[ProducerClient]) -> None:
    """Fail their remaining records. A function of its own, so that no local variable of `stop` keeps a client alive."""
    for client in clients:
        client.purge()
        try:
            client.kafka.flush(1.0)  # what is on its way is reported by the threads of its brokers, a moment later
        except KafkaException as problem:  # the fatal error for which it was replaced, once more
            log.debug("a former client of the producer is closed", reason=problem.args[0].str())
