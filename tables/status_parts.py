"""A worker's status as records that Kafka takes, and back. With thousands of subscriptions there are several.

    status -> parts by uid or Secret, each with the same head -> records <worker>, <worker>/1, <worker>/2, ...
    records -> the parts that the first one of a worker speaks of -> its status

Each part is the record of a worker, so an earlier version reads it too, as one more worker. Pure.
"""

from __future__ import annotations

import zlib
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar, cast

import orjson
import structlog

from knative.contract import codec
from knative.contract.decoding import DecodeError
from knative.contract.records import WorkerStatus
from knative.contract.subscription_stats import SubscriptionStats

T = TypeVar("T")

log = structlog.get_logger(__name__)

RECORD_BYTES_MAX = 512 * 1024  #: of one record; a topic accepts 1 MiB by default


def encode_status(status: WorkerStatus) -> bytes:
    """Returns JSON for the status topic, of one part."""
    return orjson.dumps(codec.record_of_worker(status))


def keys_of(status: WorkerStatus) -> list[bytes]:
    """Returns the keys of its records, the first one first."""
    return [_key(status.worker, part) for part in range(status.parts)]


class StatusEncoder:
    """Makes the records of one worker."""

    def __init__(self, bytes_max: int = RECORD_BYTES_MAX) -> None:
        """`bytes_max`: of one record."""
        self._bytes_max = bytes_max
        self.parts = 1  #: the number of records; it never falls, because the others would have to be removed

    def records(self, status: WorkerStatus, changed: Collection[str] | None = None) -> list[tuple[bytes, bytes]]:
        """Returns keys and values in the order to store them: the first one, which says how many there are, is the
        last. `changed`: uids; only their records and the first one are made. None = all."""
        while True:
            only = None if changed is None else {0, *(_part_of(uid, self.parts) for uid in changed)}
            parts = split(status, self.parts, only)
            values = [encode_status(part) for part in parts]
            rows = max(len(status.subscriptions), len(status.secrets))
            if max(map(len, values)) <= self._bytes_max or self.parts > rows:
                records = [(_key(part.worker, part.part), value) for part, value in zip(parts, values, strict=True)]
                return records[::-1]
            self.parts, changed = 2 * self.parts, None


def split(status: WorkerStatus, parts: int, only: Collection[int] | None = None) -> list[WorkerStatus]:
    """Returns the status in `parts` parts, or `only` those with these numbers. A subscription or Secret stays in its
    part as long as their number does."""
    if parts == 1:
        return [status]
    numbers = range(parts) if only is None else sorted(only)
    served, stats = (_shares(status.subscriptions, parts, numbers), _shares(status.stats, parts, numbers))
    secrets = _shares(status.secrets, parts, numbers)
    return [
        replace(status, subscriptions=served[n], stats=stats[n], secrets=secrets[n], part=n, parts=parts)
        for n in numbers
    ]


def joined(statuses: Iterable[WorkerStatus]) -> list[WorkerStatus]:
    """Returns the statuses of the workers whose parts these are."""
    by_worker: dict[str, list[WorkerStatus]] = {}
    for status in statuses:
        by_worker.setdefault(status.worker, []).append(status)
    return [whole for parts in by_worker.values() if (whole := join(parts)) is not None]


def join(parts: Iterable[WorkerStatus]) -> WorkerStatus | None:
    """Returns the status of the worker with these parts; None without the first one. Those beyond its number are of an
    earlier process, unless they are newer: then their number grows, and the first one follows."""
    by_number = {status.part: status for status in parts}
    first = by_number.get(0)
    if first is None:
        return None
    mine = [status for part, status in sorted(by_number.items()) if part < first.parts or status.time > first.time]
    if len(mine) == 1:
        return first
    return replace(
        first,
        subscriptions={uid: row for status in mine for uid, row in status.subscriptions.items()},
        secrets={reference: problem for status in mine for reference, problem in status.secrets.items()},
        stats=ChainMap(*(cast("dict[str, SubscriptionStats]", status.stats) for status in mine)),
    )


def _key(worker: str, part: int) -> bytes:
    return (f"{worker}/{part}" if part else worker).encode()  # no worker's id has a slash


def _part_of(name: str, parts: int) -> int:
    return zlib.crc32(name.encode()) % parts


def _shares(rows: Mapping[str, T], parts: int, numbers: Iterable[int]) -> dict[int, dict[str, T]]:
    """Returns the rows of the parts with these numbers."""
    shares: dict[int, dict[str, T]] = {number: {} for number in numbers}
    for uid, row in rows.items():
        share = shares.get(_part_of(uid, parts))
        if share is not None:
            share[uid] = row
    return shares


class ReadLater(Mapping[str, SubscriptionStats]):
    """Statistics of a record, which are read when somebody asks for them: most are replaced before. Those that are not
    valid are left out: statistics must not make a subscriber unready."""

    def __init__(self, value: bytes) -> None:
        """`value`: JSON of an object by uid."""
        self._value = value

    @cached_property
    def _rows(self) -> Mapping[str, Any]:
        try:
            rows = orjson.loads(self._value)
        except ValueError:
            rows = None
        return rows if isinstance(rows, dict) else {}

    def __getitem__(self, uid: str) -> SubscriptionStats:
        if "_rows" not in self.__dict__ and uid.encode() not in self._value:
            raise KeyError(uid)  # of thousands, most are in another part, and a new subscription is in none
        try:
            return codec.stats_of(self._rows[uid])
        except DecodeError as problem:
            unreadable(uid, problem)
            raise KeyError(uid) from problem

    def __iter__(self) -> Iterator[str]:
        return (uid for uid in self._rows if uid in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def unreadable(uid: str, problem: Exception) -> None:
    """Statistics of a worker are not valid."""
    log.debug("statistics of a worker cannot be read", uid=uid, reason=str(problem))
