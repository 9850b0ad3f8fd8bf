"""Records of Kafka as the values that pages show. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.operations.dead_letters.editing import form_of
from app.operations.dead_letters.ledger import Ledger
from app.operations.dead_letters.letters import DeadLetter, Group
from app.operations.dead_letters.summary import Summary
from app.operations.stored_records import as_json, split_headers
from knative import shown
from knative.cloudevents.kafka_binding import describe
from knative.contract.records import kind_and_name
from tables.kafka.topic_reader import StoredRecord
from web.console.acts import Letter, LetterGroup, LetterRow, StoredEvent


def event_of(record: StoredRecord, *, whole: bool = True) -> StoredEvent:
    """Returns the event. Not `whole`: without data, and with short attributes, for a list."""
    # Dead letters are in channels too, where a dead letter sink has brought them.
    attributes, others = split_headers(DeadLetter(record).redacted_record)
    if not whole:
        attributes, others = {name: value[: shown.TEXT_MAX] for name, value in attributes.items()}, {}
    return StoredEvent(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        time_s=record.timestamp_ms / 1000,
        key=record.key,
        attributes=attributes,
        headers=others,
        data=record.value if whole else None,
        size=len(record.value or b""),
    )


def letter_row(letter: DeadLetter, ledger: Ledger) -> LetterRow:
    """Returns a dead letter in a list."""
    mark, about = ledger.get(letter), describe(letter.record.headers)
    return LetterRow(
        ref=letter.ref,
        time_s=letter.time_s,
        subscription=letter.subscription,
        reason=letter.reason,
        id=about["id"],
        type=about["type"],
        source=about["source"],
        attempts=letter.said.get("attempts", ""),
        redriven_at=None if mark is None else mark.redriven_at,
    )


def letter_of(letter: DeadLetter, ledger: Ledger) -> Letter:
    """Returns a dead letter, whole."""
    destination = letter.said.get("knativeerrordest", "")
    return Letter(
        letter_row(letter, ledger), event_of(letter.record), letter.answer, destination, form_of(as_json(letter.record))
    )


def groups_of(groups: Iterable[Group]) -> list[LetterGroup]:
    """Returns groups of dead letters as values for pages."""
    return [
        LetterGroup(group.subscription, group.reason, group.count, group.redriven, group.oldest_s, group.newest_s)
        for group in groups
    ]


def summary_text(summary: Summary) -> str:
    """Returns how far a redrive is, or how it has ended."""
    before = f", {summary.already} were redriven before" if summary.already else ""
    text = f"{summary.redriven} redriven, {summary.failed} failed{before}."
    for (subscription, reason), count in summary.reasons.most_common(3):
        text += f" {count} failed for {kind_and_name(subscription, '')[1] or 'no subscription'}: {reason}."
    return text + (f" The run ended early: {summary.stopped}." if summary.stopped else "")
