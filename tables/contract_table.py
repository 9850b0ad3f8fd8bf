"""The contract topic as a table in memory: channels and subscriptions by uid.

If a record has a newer schema, the last good record stays in place and `problem` reports it, so the process is not
ready until the record is replaced. A subscription that needs a feature which this version does not know is in
`unsupported` instead: serving it, or its last good record, would deliver wrong events. A record that is not valid is
named in the log and skipped. It says nothing about what should be served, so the process stays ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from knative.contract.codec import Entry, UnknownSchema, UnsupportedFeatures, entry_of, record_of
from knative.contract.records import Channel, Subscription, Unsupported
from tables.compacted_table import CompactedTable
from tables.kafka.compacted_topic import Record
from tables.kafka.unreadable import skip

log = structlog.get_logger(__name__)


def encode_entry(entry: Entry) -> bytes:
    """Returns JSON for the contract topic."""
    return orjson.dumps(record_of(entry))


def decode_entry(value: bytes, key: bytes | None = None) -> Entry:
    """Returns the entry of a record's JSON. Raises UnknownSchema for a newer schema (UnsupportedFeatures for one
    subscription only), and ValueError for a record that is not valid. `key`: of the record, which is the entry's uid;
    None = not known."""
    entry = entry_of(orjson.loads(value))
    if key is not None and entry.uid.encode() != key:
        raise ValueError(f"the record of {entry.uid!r} has another key")
    return entry


class ContractTable(CompactedTable):
    """Channels and subscriptions as published. Event loop only."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], crashed: Callable[[BaseException], None]) -> None:
        super().__init__(topic, kafka, crashed)
        self.channels: dict[str, Channel] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.unsupported: dict[str, Unsupported] = {}  #: subscriptions that this version cannot serve
        self.revision = 0  #: grows with each change of what is published
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """The records that cannot be read, with reasons; "" = none."""
        return "; ".join(f"{key}: {why}" for key, why in sorted(self._problems.items()))

    @property
    def unsupported_text(self) -> str:
        """The subscriptions that this version cannot serve, with reasons; "" = none."""
        return "; ".join(
            f"{unsupported.kind} {unsupported.label} {unsupported.reason}"
            for _, unsupported in sorted(self.unsupported.items())
        )

    def _apply(self, records: Sequence[Record]) -> bool:
        changed = False
        for record in records:
            changed |= self._apply_one(record)
        return changed

    def _apply_one(self, record: Record) -> bool:
        uid, value = record.key.decode("utf-8", "replace"), record.value
        before = self.channels.get(uid) or self.subscriptions.get(uid) or self.unsupported.get(uid)
        if value is None:
            self._problems.pop(uid, None)
            self._forget(uid)
            return before is not None
        entry: Entry | Unsupported
        try:
            entry = decode_entry(value, record.key)
        except UnsupportedFeatures as problem:
            entry = problem.entry
            log.error(
                "a contract record needs a newer version of Penstock, and is not served", uid=uid, reason=str(problem)
            )
        except UnknownSchema as problem:
            self._problems[uid] = str(problem)
            log.error(
                "a contract record is of a newer version of Penstock; the last valid record is kept",
                uid=uid,
                reason=str(problem),
            )
            return False
        except ValueError as problem:
            skip(self._topic, record, problem)
            return False
        self._problems.pop(uid, None)
        if entry == before or (before is not None and entry.generation < before.generation):
            # While leadership changes, two controllers may write. A late record of the old leader must not undo what
            # the new one has published.
            return False
        self._forget(uid)
        match entry:
            case Channel():
                self.channels[uid] = entry
            case Subscription():
                self.subscriptions[uid] = entry
            case Unsupported():
                self.unsupported[uid] = entry
        return True

    def _forget(self, uid: str) -> None:
        self.revision += 1
        self.channels.pop(uid, None)
        self.subscriptions.pop(uid, None)
        self.unsupported.pop(uid, None)
