"""What a dead letter says, which ones a person means, and how they group. Pure: records in, values out.

Refuses to guess whose a letter is: one that lost its `penstock-` headers (it was too large with them) is nobody's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from app.operations.topic_reader import StoredRecord
from knative.cloudevents.kafka_binding import describe
from knative.contract.records import Subscription

_ERROR = "ce_knativeerror"
_PLAIN = "penstock-"


@dataclass(frozen=True)
class DeadLetter:
    """One record of a DLQ topic, read once."""

    record: StoredRecord

    @cached_property
    def said(self) -> dict[str, str]:
        """`penstock-*` headers and `knativeerror*` attributes, by name without `penstock-` and `ce_`."""
        found = {}
        for name, value in self.record.headers:
            low = name.lower()
            if low.startswith(_PLAIN):
                found[low[len(_PLAIN) :]] = (value or b"").decode("utf-8", "replace")
            elif low.startswith(_ERROR):
                found[low[3:]] = (value or b"").decode("utf-8", "replace")
        return found

    @property
    def ref(self) -> str:
        """TOPIC/PARTITION/OFFSET: the name of this letter on the command line and in the redriven topic."""
        return f"{self.record.topic}/{self.record.partition}/{self.record.offset}"

    @property
    def subscription(self) -> str:
        """NAMESPACE/NAME; "" when the letter does not say."""
        return self.said.get("subscription", "")

    @property
    def subscription_uid(self) -> str:
        """Of the subscription at that time."""
        return self.said.get("subscription-uid", "")

    @property
    def reason(self) -> str:
        """Why it was not delivered, in words."""
        return self.said.get("reason", "")

    @property
    def event_id(self) -> str:
        """The event's `id`, cut when it is long."""
        return describe(self.record.headers)["id"]

    @property
    def time_s(self) -> float:
        """When it became a dead letter, Unix seconds."""
        return self.record.timestamp_ms / 1000

    @property
    def answer(self) -> bytes | None:
        """The start of what the subscriber answered; None when that is not known."""
        try:
            return base64.b64decode(self.said["knativeerrordata"], validate=True)
        except (KeyError, binascii.Error, ValueError):
            return None

    def original_headers(self) -> list[tuple[str, bytes | None]]:
        """Headers of the event as it was stored in the channel: without what becoming a dead letter added."""
        return [(name, value) for name, value in self.record.headers if not name.lower().startswith((_ERROR, _PLAIN))]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are meant; "" and None = any."""

    subscription: str = ""
    reason: str = ""  #: a part of it, in any case
    since_s: float | None = None
    until_s: float | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether this is one of them. `until_s` is not included."""
        return (
            self.subscription in ("", letter.subscription)
            and self.reason.casefold() in letter.reason.casefold()
            and (self.since_s is None or letter.time_s >= self.since_s)
            and (self.until_s is None or letter.time_s < self.until_s)
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Letters of one subscription with one reason. Times in Unix seconds."""

    subscription: str
    reason: str
    count: int = 0
    redriven: int = 0
    oldest_s: float = 0.0
    newest_s: float = 0.0
    topics: frozenset[str] = field(default_factory=frozenset)

    def plus(self, letter: DeadLetter, redriven: bool) -> Group:
        """The group with one letter more."""
        at = letter.time_s
        return replace(
            self,
            count=self.count + 1,
            redriven=self.redriven + redriven,
            oldest_s=min(self.oldest_s, at) if self.count else at,
            newest_s=max(self.newest_s, at) if self.count else at,
            topics=self.topics | {letter.record.topic},
        )


def group(letters: Iterable[tuple[DeadLetter, bool]]) -> list[Group]:
    """By subscription and reason, the largest first. Each letter comes with whether it was redriven."""
    groups: dict[tuple[str, str], Group] = {}
    for letter, redriven in letters:
        key = (letter.subscription, letter.reason)
        groups[key] = (groups.get(key) or Group(*key)).plus(letter, redriven)
    return sorted(groups.values(), key=lambda one: (-one.count, one.subscription, one.reason))


def owner(letter: DeadLetter, subscriptions: Iterable[Subscription]) -> Subscription | None:
    """Whose letter it is now: the subscription of its uid, else the one of its name at the same channel, else None."""
    same_name = None
    for one in subscriptions:
        if letter.subscription_uid and one.uid == letter.subscription_uid:
            return one
        if letter.subscription and one.label == letter.subscription and one.dlq_topic == letter.record.topic:
            same_name = one
    return same_name
