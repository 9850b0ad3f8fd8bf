"""`penstock dlq list`: dead letters in groups, or one by one. Does not join a consumer group."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.dlq.groups import GROUPS, group_rows, named
from app.cli.dlq.selection import ChannelOption, Reason, Since, SubscriptionOption, Topic, Until, query
from app.cli.options.kafka import Kafka
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output.format import Listing, View, Views
from app.cli.output.time import show_time
from app.operations.dead_letters.ledger import Ledger
from app.operations.dead_letters.letters import DeadLetter, group
from knative.cloudevents.kafka_binding import describe

_LETTERS = Listing(
    columns={
        "letter": "LETTER",
        "time": "AGE",
        "subscription": "NAME",
        "id": "ID",
        "redriven": "REDRIVEN",
        "reason": "REASON",
    },
    wide={
        "kind": "KIND",
        "type": "TYPE",
        "source": "SOURCE",
        "attempts": "ATTEMPTS",
        "destination": "DESTINATION",
        "reason": "REASON",
    },
    name="letter",
    times=frozenset({"time", "redriven"}),
    empty="No dead letters.",
)


def list_letters(
    subscription: SubscriptionOption = "",
    channel: ChannelOption = "",
    topic: Topic = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    each: Annotated[bool, typer.Option("--each", help="One row for each letter instead of groups.")] = False,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """List dead letters by subscription and reason: their number, how many are redriven, the oldest, the newest.

    \b
    Examples:
      penstock dlq list
      penstock dlq list --since 1d --reason "was 500"
      penstock dlq list --subscription default/picky --each
      penstock dlq list --channel default/quickstart -o json
      penstock dlq list -n default
    """
    only = chosen_namespace(namespace, everywhere, context)
    where = query(kafka, subscription, channel, topic, reason, since, until, only)
    ledger = where.ledger()
    if each:
        _LETTERS.show([letter_row(letter, ledger) for letter in where.letters()], output)
    else:
        GROUPS.show(group_rows(group((letter, ledger.has(letter)) for letter in where.letters())), output)


def letter_row(letter: DeadLetter, ledger: Ledger) -> dict[str, object]:
    """Returns a row for one dead letter. `redriven` is the time of its redrive; "" = not redriven."""
    mark = ledger.get(letter)
    return {
        "letter": letter.ref,
        "time": show_time(letter.time_s),
        **named(letter.subscription),
        **describe(letter.record.headers),
        "reason": letter.reason,
        "attempts": letter.said.get("attempts", ""),
        "destination": letter.said.get("knativeerrordest", ""),
        "redriven": mark.redriven_at if mark is not None else "",
    }
