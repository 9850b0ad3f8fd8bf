"""The demo's arithmetic: attempts at the subscriber and records of the DLQ topic in, the report out.

Pure. Refuses to know how they were observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.topic_reader import StoredRecord

_ACCEPTED = 202
_DELIVERED = 200


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request at the subscriber. Times in ns of Unix time."""

    subscription: str
    status: int
    event_id: str
    key: str
    sequence: int  #: counts the events of a key from 0
    sent_ns: int
    time_ns: int

    @classmethod
    def read(cls, fact: Mapping[str, Any]) -> Attempt:
        """From a line of the sample subscriber's ledger."""
        attributes = fact["attributes"]
        return cls(
            subscription=fact["subscription"],
            status=fact["status"],
            event_id=attributes["id"],
            key=attributes["partitionkey"],
            sequence=int(attributes["demosequence"]),
            sent_ns=int(attributes["demosent"]),
            time_ns=fact["time_ns"],
        )


class Tally:
    """Counts for each event and subscription. Attempts in the order of their arrival."""

    def __init__(self, statuses: Mapping[str, int], subscriptions: Mapping[str, str]) -> None:
        """`statuses`: event id -> what its sender was answered. `subscriptions`: label -> name in the ledger."""
        self._statuses = statuses
        self._labels = subscriptions
        self._names = sorted(subscriptions.values())
        accepted = {event_id for event_id, status in statuses.items() if status == _ACCEPTED}
        self.missing = {(name, event_id) for name in self._names for event_id in accepted}  #: neither here nor there
        self._seen: set[tuple[str, str]] = set()
        self._delivered: set[tuple[str, str]] = set()
        self._dead: set[tuple[str, str]] = set()
        self._latest: dict[tuple[str, str], int] = {}
        self._latencies_ns: dict[str, list[int]] = {name: [] for name in self._names}
        self._retried = self._duplicates = self._out_of_order = 0

    def attempt(self, attempt: Attempt) -> None:
        """One more request arrived."""
        pair = (attempt.subscription, attempt.event_id)
        if pair not in self._seen:
            self._seen.add(pair)
            lane = (attempt.subscription, attempt.key)
            if attempt.sequence < self._latest.get(lane, -1):
                self._out_of_order += 1
            self._latest[lane] = max(attempt.sequence, self._latest.get(lane, -1))
        elif pair in self._delivered or pair in self._dead:
            self._duplicates += 1
        else:
            self._retried += 1
        if attempt.status == _DELIVERED and pair not in self._delivered:
            self._delivered.add(pair)
            self._latencies_ns[attempt.subscription].append(attempt.time_ns - attempt.sent_ns)
            self.missing.discard(pair)

    def dead_letter(self, record: StoredRecord) -> None:
        """A record of the DLQ topic; the same one may be told again."""
        headers = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
        name = self._labels.get(headers.get("penstock-subscription", ""))
        if name is not None:
            pair = (name, headers["ce_id"])
            self._dead.add(pair)
            self.missing.discard(pair)

    def report(self) -> dict[str, object]:
        """The object that the demo prints. Times in ms; `delivered` and `dead_lettered` are event x subscription."""
        good, picky = (self._latencies_ns.get(name, []) for name in ("good", "picky"))
        return {
            "sent": len(self._statuses),
            "accepted": sum(status == _ACCEPTED for status in self._statuses.values()),
            "delivered": len(self._delivered),
            "retried": self._retried,
            "dead_lettered": len(self._dead),
            "lost": len(self.missing),
            "duplicates": self._duplicates,
            "out_of_order": self._out_of_order,
            "p50_ms": percentile_ms(good, 0.50),
            "p99_ms": percentile_ms(good, 0.99),
            "picky_p99_ms": percentile_ms(picky, 0.99),
        }


def percentile_ms(values_ns: Sequence[int], share: float) -> float | None:
    """The smallest value that `share` of all are not above; None without values."""
    if not values_ns:
        return None
    ordered = sorted(values_ns)
    index = min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))
    return round(ordered[index] / 1e6, 2)
