"""In-memory twins of the ports: the same promises as the real thing, and a way to fail or hold on command.

For tests of what stands in front of a port. What stands behind one is tested with the real Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knative.contract.records import Channel
from knative.ports import Headers, ProduceFailure, ProduceProblem, Stored


@dataclass(frozen=True, slots=True)
class Record:
    """One stored record."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes | None]


class MemoryProduce:
    """Produce: stores in a list. `failing` rejects each record, `holding` keeps acknowledgements back."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.connected = True
        self.failing: ProduceProblem | None = None
        self.holding = False
        self.held: list[Stored] = []

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """Store it (or not) and tell, at once unless `holding`."""
        if self.failing is not None:
            done(ProduceFailure(self.failing, f"told to fail: {self.failing.value}"))
            return
        names = [name for name, _ in headers]
        assert len(names) == len(set(names)), f"record header twice: {names}"
        assert value is None or type(value) is bytes, "librdkafka takes bytes"
        self.records.append(Record(topic, value, key, dict(headers)))
        if self.holding:
            self.held.append(done)
        else:
            done(None)

    def release(self) -> None:
        """Acknowledge what was held, and hold no more."""
        self.holding = False
        held, self.held = self.held, []
        for done in held:
            done(None)


class MemoryContract:
    """ContractView: channels given by hand."""

    def __init__(self, *channels: Channel, loaded: bool = True) -> None:
        self.loaded = loaded
        self.channels: dict[str, Channel] = {channel.uid: channel for channel in channels}
        self._callbacks: list[Callable[[], None]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def change(self, *channels: Channel, loaded: bool = True) -> None:
        self.loaded = loaded
        self.channels = {channel.uid: channel for channel in channels}
        for callback in self._callbacks:
            callback()


class VirtualClock:
    """A `Clock` that advances only while a task sleeps on it. Everything due in that time happens during the sleep."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._due: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now

    def at(self, when: float, do: Callable[[], None]) -> None:
        """`do` happens when the clock has come to `when`."""
        self._due.append((when, do))
        self._due.sort(key=lambda entry: entry[0])

    def sleep(self, seconds: float) -> None:
        """The clock goes on by this much, at once."""
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            self._now, do = self._due.pop(0)
            do()
        self._now = until


class CountingObserve:
    """Observe: counts by what it was told."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.others: Counter[tuple[object, ...]] = Counter()

    def consumed(self, consumer: str, topic: str, partition: int, count: int) -> None:
        self.others["consumed", consumer, topic, partition] += count

    def assigned(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        self.others["assigned", consumer, topic] += len(partitions)

    def revoked(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        self.others["revoked", consumer, topic] += len(partitions)

    def closed(self, consumer: str) -> None:
        self.others["closed", consumer] += 1

    def forget(self, subscription: str) -> None:
        self.others["forget", subscription] += 1

    def produced(self, topic: str, partition: int, seconds: float) -> None:
        self.others["produced", topic, partition] += 1

    def stored_again(self, topic: str, count: int) -> None:
        self.others["stored_again", topic] += count

    def request(self, code: int) -> None:
        self.requests[code] += 1

    def attempt(self, subscription: str, status: int, seconds: float) -> None:
        self.others["attempt", subscription, status] += 1

    def delivered(self, subscription: str, seconds: float, age_s: float) -> None:
        self.others["delivered", subscription] += 1

    def settled(self, subscription: str, verdict: str, age_s: float) -> None:
        self.others["settled", subscription, verdict] += 1

    def expired(self, subscription: str, count: int) -> None:
        self.others["expired", subscription] += count

    def filtered(self, subscription: str) -> None:
        self.others["filtered", subscription] += 1

    def filter_exceeded(self, subscription: str) -> None:
        self.others["filter_exceeded", subscription] += 1

    def reply_stored(self, subscription: str) -> None:
        self.others["reply_stored", subscription] += 1

    def reply_dropped(self, subscription: str) -> None:
        self.others["reply_dropped", subscription] += 1
