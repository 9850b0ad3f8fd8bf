"""Dead letters as values: their fields, selection and grouping. Pure.

A letter without `penstock-` headers (it was too large with them) belongs to no subscription. Does not guess one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from knative.cloudevents.kafka_binding import describe, original_headers
from knative.contract.records import Subscription
from knative.urls import shown_url
from tables.kafka.topic_reader import StoredRecord

_ERROR = "ce_knativeerror"
_DEST = f"{_ERROR}dest"
_PLAIN = "penstock-"


@dataclass(frozen=True)
class DeadLetter:
    """One record of a DLQ topic, read once."""

    record: StoredRecord

    @cached_property
    def said(self) -> dict[str, str]:
        """`penstock-*` headers and `knativeerror*` attributes, by name without `penstock-` and `ce_`."""
        values = {}
        for name, value in self.redacted_record.headers:
            low = name.lower()
            if low.startswith(_PLAIN):
                values[low[len(_PLAIN) :]] = (value or b"").decode("utf-8", "replace")
            elif low.startswith(_ERROR):
                values[low[3:]] = (value or b"").decode("utf-8", "replace")
        return values

    @cached_property
    def redacted_record(self) -> StoredRecord:
        """The record for people. Dead letters of other programs may have the whole URL of the subscriber."""
        headers = tuple(
            (name, shown_url(value.decode("utf-8", "replace")).encode() if value and name.lower() == _DEST else value)
            for name, value in self.record.headers
        )
        return replace(self.record, headers=headers)

    @property
    def ref(self) -> str:
        """TOPIC/PARTITION/OFFSET: the name of this letter on the command line and in the redriven topic."""
        return f"{self.record.topic}/{self.record.partition}/{self.record.offset}"

    @property
    def subscription(self) -> str:
        """NAMESPACE/NAME; "" when the letter does not have it."""
        return self.said.get("subscription", "")

    @property
    def subscription_uid(self) -> str:
        """The uid of the subscription when the event became a dead letter."""
        return self.said.get("subscription-uid", "")

    @property
    def reason(self) -> str:
        """Why it was not delivered, as text."""
        return self.said.get("reason", "")

    @property
    def event_id(self) -> str:
        """The event's `id`, shortened when it is long."""
        return describe(self.record.headers)["id"]

    @property
    def time_s(self) -> float:
        """When it became a dead letter, Unix seconds."""
        return self.record.timestamp_ms / 1000

    @property
    def answer(self) -> bytes | None:
        """The beginning of the subscriber's answer; None when it is not known."""
        try:
            return base64.b64decode(self.said["knativeerrordata"], validate=True)
        except (KeyError, binascii.Error, ValueError):
            return None

    def original_headers(self) -> list[tuple[str, bytes | None]]:
        """Returns the headers of the event as it was stored in the channel, without those of the dead letter."""
        return original_headers(self.record.headers)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters to take; "" and None = any."""

    subscription: str = ""
    reason: str = ""  #: a part of the reason; case does not matter
    since_s: float | None = None
    until_s: float | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Returns whether the selection contains this letter. `until_s` is not included."""
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
        """Returns the group with this letter added."""
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
    """Returns groups by subscription and reason, the largest first. Pairs: letter, whether it was redriven."""
    groups: dict[tuple[str, str], Group] = {}
    for letter, redriven in letters:
        key = (letter.subscription, letter.reason)
        groups[key] = (groups.get(key) or Group(*key)).plus(letter, redriven)
    return sorted(groups.values(), key=lambda entry: (-entry.count, entry.subscription, entry.reason))


def owner(letter: DeadLetter, subscriptions: Iterable[Subscription]) -> Subscription | None:
    """Returns the subscription that gets the letter: by uid, otherwise by name and DLQ topic; None = there is none."""
    # The name is the fallback because a subscription that was deleted and applied again has another uid. Its DLQ topic
    # must match, so that a subscription of the same name at another channel does not get the event.
    same_name = None
    for subscription in subscriptions:
        if letter.subscription_uid and subscription.uid == letter.subscription_uid:
            return subscription
        if (
            letter.subscription
            and subscription.label == letter.subscription
            and subscription.dlq_topic == letter.record.topic
        ):
            same_name = subscription
    return same_name
