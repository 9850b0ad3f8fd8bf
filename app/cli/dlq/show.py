"""`penstock dlq show`: whole dead letters. Does not join a consumer group, and escapes terminal control sequences."""

from __future__ import annotations

import heapq
from typing import Annotated

import typer

from app.cli.dlq.selection import (
    ChannelOption,
    Reason,
    Refs,
    Since,
    SubscriptionOption,
    Topic,
    Until,
    query,
    reject_both,
)
from app.cli.options.kafka import Kafka
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output.format import Format, Output, escaped, print_json
from app.cli.output.records import printable
from app.cli.output.time import show_time
from app.operations.dead_letters.ledger import Ledger
from app.operations.dead_letters.letters import DeadLetter
from app.operations.dead_letters.reader import read_named
from app.operations.stored_records import as_json, bytes_as, split_headers


def show(
    refs: Refs = None,
    subscription: SubscriptionOption = "",
    channel: ChannelOption = "",
    topic: Topic = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    last: Annotated[int, typer.Option("--last", min=1, help="Print only the last N letters.")] = 10,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Print complete dead letters: attributes, headers, the subscriber's answer, data.

    \b
    Examples:
      penstock dlq show --last 1
      penstock dlq show --subscription default/picky --reason 500 -o json
      penstock dlq list --each -o name | head -1 | xargs penstock dlq show
    """
    only = chosen_namespace(namespace, everywhere, context)
    reject_both(refs, subscription, channel, topic, reason, since, until, only)
    where = query(kafka, subscription, channel, topic, reason, since, until, only)
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
    """Returns the whole letter; `answer` is knativeerrordata decoded, `redriven` the time of its redrive or null."""
    mark = ledger.get(letter)
    return {
        "letter": letter.ref,
        "redriven": None if mark is None else mark.redriven_at,
        **as_json(letter.redacted_record),
        **bytes_as("answer", letter.answer),
    }


def letter_lines(letter: DeadLetter, ledger: Ledger) -> list[str]:
    """Returns the letter as lines for people, with terminal control sequences escaped."""
    attributes, others = split_headers(letter.redacted_record)
    mark = ledger.get(letter)
    lines = [f"{letter.ref} {show_time(letter.time_s)}" + (f" redriven {mark.redriven_at}" if mark else "")]
    for name, value in [*attributes.items(), *others.items()]:
        if name != "knativeerrordata" or letter.answer is None:
            lines.append(escaped(f"  {name}: {value}"))
    for name, data in (("answer", letter.answer), ("data", letter.record.value)):
        if data:
            lines.append(f"  {name}:")
            lines += [f"    {line}" for line in printable(data).splitlines()]
    return lines
