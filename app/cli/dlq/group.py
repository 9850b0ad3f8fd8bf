"""`penstock dlq list|show`: dead letters in groups, one by one, and whole. `redrive` has a module of its own.

Joins no consumer group: looking on takes nothing away. Refuses to change or remove a dead letter.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.commands import Commands
from app.cli.dlq import redrive
from app.cli.dlq.groups import GROUPS, group_rows
from app.cli.dlq.selection import (
    ChannelWish,
    Kafka,
    Reason,
    Refs,
    Since,
    SubscriptionWish,
    Topic,
    Until,
    look,
    refuse_both,
)
from app.cli.output.format import Format, Listing, Output, View, Views, print_json
from app.cli.output.time import show_time

if TYPE_CHECKING:
    from app.operations.dead_letters.ledger import Ledger
    from app.operations.dead_letters.letters import DeadLetter

_LETTERS = Listing(
    columns={
        "letter": "LETTER",
        "time": "TIME",
        "subscription": "SUBSCRIPTION",
        "id": "ID",
        "reason": "REASON",
        "redriven": "REDRIVEN",
    },
    wide={"type": "TYPE", "source": "SOURCE", "attempts": "ATTEMPTS", "destination": "DESTINATION"},
    name="letter",
    empty="No dead letters.",
)


def register(cli: typer.Typer) -> None:
    """Adds `dlq` to the commands."""
    group = Commands()
    group.command("list")(list_letters)
    group.command("show")(show)
    group.command("redrive")(redrive.redrive)
    group.callback()(dlq)
    cli.add_typer(group, name="dlq")


def dlq() -> None:
    """Dead letters: events that a subscriber did not take.

    \b
    Examples:
      penstock dlq list
      penstock dlq show --subscription default/picky --last 1
      penstock dlq redrive --subscription default/picky --dry-run
    """


def list_letters(
    subscription: SubscriptionWish = "",
    channel: ChannelWish = "",
    topic: Topic = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    each: Annotated[bool, typer.Option("--each", help="One row for each letter instead of groups.")] = False,
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """List dead letters by subscription and reason: how many, how many of them redriven, the oldest, the newest.

    \b
    Examples:
      penstock dlq list
      penstock dlq list --since 1d --reason "was 500"
      penstock dlq list --subscription default/picky --each
      penstock dlq list --channel default/quickstart -o json
    """
    from app.operations.dead_letters.letters import group

    where = look(kafka, subscription, channel, topic, reason, since, until)
    ledger = where.ledger()
    if each:
        _LETTERS.show([letter_row(letter, ledger) for letter in where.letters()], output)
    else:
        GROUPS.show(group_rows(group((letter, ledger.has(letter)) for letter in where.letters())), output)


def letter_row(letter: DeadLetter, ledger: Ledger) -> dict[str, object]:
    """One letter in short. `redriven` is when that was; "" = it was not."""
    from knative.cloudevents.kafka_binding import describe

    mark = ledger.get(letter)
    return {
        "letter": letter.ref,
        "time": show_time(letter.time_s),
        "subscription": letter.subscription,
        **describe(letter.record.headers),
        "reason": letter.reason,
        "attempts": letter.said.get("attempts", ""),
        "destination": letter.said.get("knativeerrordest", ""),
        "redriven": mark.redriven_at if mark is not None else "",
    }


def show(
    refs: Refs = None,
    subscription: SubscriptionWish = "",
    channel: ChannelWish = "",
    topic: Topic = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    last: Annotated[int, typer.Option("--last", min=1, help="The last N of them.")] = 10,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Print whole dead letters: attributes, headers, what the subscriber answered, data.

    \b
    Examples:
      penstock dlq show --last 1
      penstock dlq show --subscription default/picky --reason 500 -o json
      penstock dlq list --each -o name | head -1 | xargs penstock dlq show
    """
    from app.operations.dead_letters.reader import read_named

    refuse_both(refs, subscription, channel, topic, reason, since, until)
    where = look(kafka, subscription, channel, topic, reason, since, until)
    ledger = where.ledger()
    newest = reversed(heapq.nlargest(last, where.letters(), key=_age)) if not refs else ()
    for letter in read_named(where.client, refs) if refs else newest:
        if output is Format.JSON:
            print_json(letter_json(letter, ledger))
        else:
            print("\n".join([*letter_lines(letter, ledger), ""]), flush=True)


def _age(letter: DeadLetter) -> tuple[int, str, int, int]:
    record = letter.record
    return record.timestamp_ms, record.topic, record.partition, record.offset


def letter_json(letter: DeadLetter, ledger: Ledger) -> dict[str, object]:
    """Everything; `answer` is knativeerrordata decoded, `redriven` when that was or null."""
    from app.cli.receive import as_json, bytes_as

    mark = ledger.get(letter)
    return {
        "letter": letter.ref,
        "redriven": None if mark is None else mark.redriven_at,
        **as_json(letter.record),
        **bytes_as("answer", letter.answer),
    }


def letter_lines(letter: DeadLetter, ledger: Ledger) -> list[str]:
    """The same for people; nothing in a letter can drive the terminal."""
    from app.cli.receive import split_headers
    from app.cli.tail import printable

    attributes, others = split_headers(letter.record)
    mark = ledger.get(letter)
    lines = [f"{letter.ref} {show_time(letter.time_s)}" + (f" redriven {mark.redriven_at}" if mark else "")]
    for name, value in [*attributes.items(), *others.items()]:
        if name != "knativeerrordata" or letter.answer is None:
            lines.append(f"  {name}: {_one_line(value)}")
    for name, data in (("answer", letter.answer), ("data", letter.record.value)):
        if data:
            lines.append(f"  {name}:")
            lines += [f"    {line}" for line in printable(data).splitlines()]
    return lines


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]
