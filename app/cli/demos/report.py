"""The arithmetic of the demo: attempts at the subscriber and records of the DLQ topic in, the report out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tables.kafka.topic_reader import StoredRecord


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request at the subscriber. Times in ns of Unix time."""

    subscription: str
    status: int
    event_id: str
    key: str
    sequence: int  #: number of the event within its key, from 0
    sent_ns: int
    time_ns: int

    @classmethod
    def read(cls, fact: Mapping[str, Any]) -> Attempt:
        """Returns an attempt from a line of the sample subscriber's ledger."""
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


class DemoCounts:
    """Observations of each event and subscription, in any order; `report` counts them."""

    def __init__(self, statuses: Mapping[str, int], subscriptions: Mapping[str, str]) -> None:
        """`statuses`: event id -> HTTP status for its sender. `subscriptions`: label -> name in the ledger."""
        self._statuses = statuses
        self._labels = subscriptions
        accepted = [event_id for event_id, status in statuses.items() if status == HTTPStatus.ACCEPTED]
        #: (subscription, event id) of events that are neither delivered nor dead-lettered yet
        self.missing = {(name, event_id) for name in subscriptions.values() for event_id in accepted}
        self._attempts: list[Attempt] = []
        self._dead_ms: dict[tuple[str, str], int] = {}

    def attempt(self, attempt: Attempt) -> None:
        """Add a request, in the order of arrival."""
        self._attempts.append(attempt)
        if attempt.status == HTTPStatus.OK:
            self.missing.discard((attempt.subscription, attempt.event_id))

    def dead_letter(self, record: StoredRecord) -> None:
        """Add a record of the DLQ topic; adding it again has no effect."""
        headers = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
        name = self._labels.get(headers.get("penstock-subscription", ""))
        if name is not None:
            pair = (name, headers["ce_id"])
            self._dead_ms.setdefault(pair, record.timestamp_ms)
            self.missing.discard(pair)

    def report(self) -> dict[str, object]:
        """Returns the report as printed. Times in ms; `delivered` and `dead_lettered` count event x subscription."""
        delivered: dict[tuple[str, str], int] = {}  # -> latency in ns
        seen: set[tuple[str, str]] = set()
        latest: dict[tuple[str, str], int] = {}  # subscription and key -> highest sequence
        retried = duplicates = out_of_order = 0
        for attempt in self._attempts:
            pair, lane = (attempt.subscription, attempt.event_id), (attempt.subscription, attempt.key)
            if pair not in seen:
                seen.add(pair)
                out_of_order += attempt.sequence < latest.get(lane, -1)
                latest[lane] = max(attempt.sequence, latest.get(lane, -1))
            elif pair in delivered or attempt.time_ns // 1_000_000 > self._dead_ms.get(pair, attempt.time_ns):
                duplicates += 1
            else:
                retried += 1
            if attempt.status == HTTPStatus.OK:
                delivered.setdefault(pair, attempt.time_ns - attempt.sent_ns)
        good, picky = ([ns for pair, ns in delivered.items() if pair[0] == name] for name in ("good", "picky"))
        return {
            "sent": len(self._statuses),
            "accepted": sum(status == HTTPStatus.ACCEPTED for status in self._statuses.values()),
            "delivered": len(delivered),
            "retried": retried,
            "dead_lettered": len(self._dead_ms),
            "lost": len(self.missing),
            "duplicates": duplicates,
            "out_of_order": out_of_order,
            "p50_ms": percentile_ms(good, 0.50),
            "p99_ms": percentile_ms(good, 0.99),
            "picky_p99_ms": percentile_ms(picky, 0.99),
        }


def percentile_ms(values_ns: Sequence[int], share: float) -> float | None:
    """Returns the smallest value that at least `share` of all values do not exceed; None without values."""
    if not values_ns:
        return None
    ordered = sorted(values_ns)
    index = min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))
    return round(ordered[index] / 1e6, 2)
