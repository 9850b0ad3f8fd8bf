"""What became of one event for one subscription: from its filter, its group's offsets, what is retried, and the dead
letters. Pure.

    a dead letter of it?        -> dead letter, or redriven
    the filter does not match?  -> filtered
    among those tried again?    -> retrying
    settled, by the offsets?    -> delivered, or skipped; unknown, unless all dead letters were read
    otherwise                   -> waiting
"""

from __future__ import annotations

from collections.abc import Sequence

from app.operations.dead_letters.letters import DeadLetter
from app.operations.lag import GroupOffset
from knative import timefmt
from knative.contract.explanation import explain_record, reason
from knative.contract.records import Subscription
from knative.contract.subscription_stats import FailingDelivery
from knative.delivery.policy import OnRetriesExhausted
from tables.delivery_settings import dead_letters_to
from tables.kafka.topic_reader import StoredRecord
from web.console.acts import Passage, Verdict


def is_letter_of(letter: DeadLetter, record: StoredRecord, subscription: Subscription) -> bool:
    """Returns whether a dead letter is about this event for this subscription."""
    place = tuple(letter.said.get(name) for name in ("topic", "partition", "offset"))
    return place == (record.topic, str(record.partition), str(record.offset)) and (
        letter.subscription_uid == subscription.uid or letter.subscription == subscription.label
    )


def passage(
    record: StoredRecord,
    subscription: Subscription,
    position: GroupOffset | None,
    heads: Sequence[FailingDelivery],
    letter: tuple[DeadLetter, str | None] | None,
    *,
    is_whole: bool = True,
) -> Passage:
    """Returns what became of an event for a subscription. `position`: of the subscription's group in the event's
    partition, None = not known; `heads`: deliveries that are being retried; `letter`: the event's dead letter, and when
    it was redriven; `is_whole`: all dead letters were read."""
    if letter is not None:
        dead_letter, redriven_at = letter
        if redriven_at is not None:
            text = f"Its dead letter was redriven at {redriven_at}."
            return Passage(subscription, Verdict.REDRIVEN, text, dead_letter.ref)
        text = f"The event is a dead letter: {dead_letter.reason or 'no reason'}."
        return Passage(subscription, Verdict.LETTER, text, dead_letter.ref)
    why = _filtered(record, subscription)
    if why is not None:
        return Passage(subscription, Verdict.FILTERED, f"The event {why}.")
    for head in heads:
        if (head.partition, head.offset) == (record.partition, record.offset):
            at = f"at {timefmt.in_seconds(head.next_attempt)}" if head.next_attempt else "now"
            return Passage(
                subscription, Verdict.RETRYING, f"{head.attempts} attempts have failed. The next attempt is {at}."
            )
    if position is None:
        return Passage(subscription, Verdict.UNKNOWN, "Kafka did not return the offsets of the subscription's group.")
    if record.offset in position.settled or (position.committed is not None and record.offset < position.committed):
        if not is_whole:
            why = "The event is settled. It may be a dead letter, because not all dead letters could be read."
            return Passage(subscription, Verdict.UNKNOWN, why)
        return Passage(subscription, Verdict.DELIVERED, _settled(subscription))
    attempts = position.attempts.get(record.offset, 0)
    if attempts:
        return Passage(subscription, Verdict.RETRYING, f"{attempts} attempts have failed.")
    ahead = record.offset - position.committable
    before = (
        f"At most {ahead} events of its partition are before it" if ahead else "It is the next event of its partition"
    )
    return Passage(subscription, Verdict.WAITING, f"{before}, by the last commit.")


def _filtered(record: StoredRecord, subscription: Subscription) -> str | None:
    """Returns why the filter does not let it pass; None: it does."""
    explanation = explain_record(
        subscription.label, subscription.filter, subscription.order, record.headers, record.key, record.value
    )
    return None if explanation.passes else reason(explanation)


def _settled(subscription: Subscription) -> str:
    """The offsets say that an event is done with, and not how."""
    if subscription.exhausted is OnRetriesExhausted.IGNORE:
        how = "it was delivered, or dropped when its retries were used up"
    elif subscription.delivery.dead_letter_sink is not None:
        how = f"it was delivered, or sent to the dead letter sink {dead_letters_to(subscription).value}"
    else:
        how = "it was delivered, because it has no dead letter"
    return f"The event is settled: {how}. A seek, or a start at the latest event, may have skipped it instead."
