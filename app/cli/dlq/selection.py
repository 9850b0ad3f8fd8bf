"""Which dead letters a command selects: the options that `penstock dlq` commands share, and where they lead.

Raises an error for a subscription that neither the contract nor any dead letter knows. Reads dead letters only when
asked to, except the first one of a subscription that is not in the contract.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.options.completion import complete_channel, complete_subscription
from app.cli.options.kafka import kafka_client
from app.cli.output.format import note
from app.operations.contract_snapshot import (
    Contract,
    choose_channel,
    has_subscription,
    in_namespace,
    label_of,
    no_subscription,
    read_contract,
)
from app.operations.dead_letters.ledger import Ledger, read_ledger
from app.operations.dead_letters.letters import DeadLetter, Selection
from app.operations.dead_letters.reader import Starts, read_letters
from app.operations.times import read_time
from app.settings import load_settings
from knative.errors import UsageError

Refs = Annotated[list[str] | None, typer.Argument(metavar="LETTER", help="TOPIC/PARTITION/OFFSET of `list --each`.")]
SubscriptionOption = Annotated[
    str,
    typer.Option(
        "--subscription",
        "-s",
        help="Letters of the subscription or trigger NAMESPACE/NAME.",
        autocompletion=complete_subscription,
    ),
]
ChannelOption = Annotated[
    str,
    typer.Option("--channel", help="Letters of the channel or broker NAMESPACE/NAME.", autocompletion=complete_channel),
]
Topic = Annotated[str, typer.Option("--topic", help="Letters in this DLQ topic, for a channel that was deleted.")]
Reason = Annotated[str, typer.Option("--reason", help="Letters whose reason contains this text (case-insensitive).")]
Since = Annotated[
    str, typer.Option("--since", help="Letters since a time: how long ago (90s, 10m, 2d), or an RFC 3339 time.")
]
Until = Annotated[str, typer.Option("--until", help="Letters before a time, in the same format.")]


@dataclass(frozen=True, slots=True)
class DeadLetterQuery:
    """Where to look for dead letters, and which ones to select."""

    client: Mapping[str, Any]
    contract: Contract
    instance: str
    topics: tuple[str, ...]
    selection: Selection

    def letters(self, starts: Starts | None = None) -> Iterator[DeadLetter]:
        """Returns the selected dead letters; `starts` as in `read_letters`."""
        return read_letters(self.client, self.topics, self.selection, _say_missing, starts)

    def ledger(self) -> Ledger:
        """Returns the redrive ledger."""
        return read_ledger(self.client, self.instance)


def query(
    kafka: str, subscription: str, channel: str, topic: str, reason: str, since: str, until: str, namespace: str = ""
) -> DeadLetterQuery:
    """Returns the options of a command as a query; `namespace` "" = all. Raises UsageError, NotReadyError,
    PenstockError; for an unknown channel or subscription, with the names that are known.
    """
    if topic and namespace:
        raise UsageError(
            "--topic cannot be combined with a namespace.",
            "A DLQ topic has the letters of one channel only. Remove -n or --topic.",
        )
    for option, wish in (("--subscription", subscription), ("--channel", channel)):
        _check_name(option, wish)
    now_s = time.time()
    since_s = read_time(since, "--since", now_s) if since else None
    until_s = read_time(until, "--until", now_s) if until else None
    client, instance = kafka_client(kafka), load_settings().instance
    contract = in_namespace(read_contract(client, instance), namespace)
    subscription = label_of(contract, subscription)
    selection = Selection(subscription, reason, since_s, until_s)
    if topic:
        topics: tuple[str, ...] = (topic,)
    elif channel:
        topics = (choose_channel(contract, channel).dlq_topic,)
    else:
        # A deleted subscription has dead letters too, so its name need not be in the contract.
        own = tuple(
            record.dlq_topic
            for record in contract.subscriptions
            if subscription in (record.label, f"{record.namespace}/{record.name}")
        )
        topics = own or tuple(record.dlq_topic for record in contract.channels)
    if subscription:
        _check_known(client, contract, topics, subscription)
    return DeadLetterQuery(client, contract, instance, topics, selection)


def _check_name(option: str, wish: str) -> None:
    namespace, _, name = wish.rpartition("/")
    if wish and not (namespace and name):
        raise UsageError(f"{option} {wish!r} is not NAMESPACE/NAME.", "Write the name as `penstock status` shows it.")


def _check_known(client: Mapping[str, Any], contract: Contract, topics: tuple[str, ...], subscription: str) -> None:
    """Raises PenstockError when neither the contract nor any letter in these topics knows the subscription."""
    missing: list[str] = []
    own = Selection(subscription)  # ignore the other options: one dead letter of any kind is enough
    if has_subscription(contract, subscription) or any(read_letters(client, topics, own, missing.append)):
        return
    for topic in missing:
        _say_missing(topic)
    raise no_subscription(contract, subscription)


def _say_missing(topic: str) -> None:
    note(f"There is no topic {topic} yet.")


def reject_both(refs: list[str] | None, *wishes: str) -> None:
    """Raises UsageError for names of dead letters together with options that select others."""
    if refs and any(wishes):
        raise UsageError(
            "LETTER arguments cannot be combined with options that choose letters.", "Remove one of these options."
        )
