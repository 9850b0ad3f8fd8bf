"""`penstock lag`: how far each subscription is behind, partition by partition, in events and in seconds.

Reads committed and log end offsets from Kafka. Does not join a group, and does not ask a worker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from app.cli.options.completion import complete_channel, complete_subscription
from app.cli.options.given import not_together
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output import watch as watching
from app.cli.output.format import Listing, View, Views
from app.cli.output.time import show_duration
from app.operations.contract_snapshot import choose_subscriptions, in_namespace, read_contract
from app.operations.group_offsets import measure
from app.operations.lag import GroupOffset, Lag
from app.settings import load_settings
from knative.contract.records import CHANNEL, SUBSCRIPTION, Subscription, WorkerStatus, kind_and_name
from tables.status_table import FRESH_S

_LISTING = Listing(
    columns={
        "kind": "KIND",
        "subscription": "NAME",
        "partition": "PARTITION",
        "events": "EVENTS",
        "behind": "BEHIND",
        "committed": "COMMITTED",
        "end": "END",
        "state": "STATE",
    },
    wide={
        "channel": "CHANNEL",
        "topic": "TOPIC",
        "group": "GROUP",
        "start": "START",
        "settled_above": "SETTLED ABOVE",
        "attempts": "ATTEMPTS",
        "worker": "WORKER",
    },
    name="subscription",
    kind="kind",
    empty="No subscriptions or triggers to show.",
)


def lag(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Show only the subscription or trigger NAMESPACE/NAME.",
            autocompletion=complete_subscription,
        ),
    ] = "",
    subscription: Annotated[
        str, typer.Option("--subscription", "-s", help="The same as NAME.", autocompletion=complete_subscription)
    ] = "",
    channel: Annotated[
        str,
        typer.Option(
            "--channel",
            help="Show only the subscriptions or triggers of the channel or broker NAMESPACE/NAME.",
            autocompletion=complete_channel,
        ),
    ] = "",
    behind: Annotated[bool, typer.Option("--behind", help="Show only partitions that are behind.")] = False,
    watch: watching.Watch = False,
    every_s: watching.Every = 2.0,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """Show how far each subscription and trigger is behind.

    It shows each partition, the largest lag first.

    EVENTS: number of events that are not settled yet. BEHIND: age of the oldest such event.

    \b
    Examples:
      penstock lag
      penstock lag --behind -o wide
      penstock lag -n default --behind
      penstock lag default/good -o json
      penstock lag default/picky --watch
      penstock lag --behind -o name
    """
    not_together("NAME", "--subscription", both=name and subscription)
    client, instance = kafka_client(kafka), load_settings().instance
    where = chosen_namespace(namespace, everywhere, context)

    def read() -> list[dict[str, object]]:
        contract = in_namespace(read_contract(client, instance), where)
        chosen = choose_subscriptions(contract, name or subscription, channel)
        now_s = time.time()
        lags = [measured for measured in measure(client, chosen, now_s) if measured.events or not behind]
        return rows(lags, _workers(contract.workers, chosen, now_s))

    if watch:
        watching.watch(read, lambda lines: watching.show_next(_LISTING, lines, output), _tables, every_s, output)
    else:
        _LISTING.show(read(), output)


def _tables(lines: list[dict[str, object]]) -> list[tuple[Listing, list[dict[str, object]]]]:
    return [(_LISTING, lines)]


def rows(lags: Sequence[Lag], workers: Mapping[tuple[str, int], str]) -> list[dict[str, object]]:
    """Returns one row for each partition. `seconds` is None if the oldest record could not be read; `behind` has the
    same time for people."""
    return [
        {
            **_named(measured.group_offset),
            "partition": measured.group_offset.partition,
            "events": measured.events,
            "seconds": None if measured.seconds is None else round(measured.seconds, 3),
            "behind": show_duration(measured.seconds),
            "committed": measured.group_offset.committed,
            "end": measured.group_offset.end,
            "state": measured.group_offset.state or "",
            "channel": kind_and_name(measured.group_offset.channel, CHANNEL)[1],
            "topic": measured.group_offset.topic,
            "group": measured.group_offset.group,
            "start": measured.group_offset.start,
            "settled_above": len(measured.group_offset.settled),
            "attempts": max(measured.group_offset.attempts.values(), default=0),
            "worker": workers.get((measured.group_offset.group, measured.group_offset.partition), ""),
        }
        for measured in lags
    ]


def _named(offset: GroupOffset) -> dict[str, object]:
    kind, name = kind_and_name(offset.subscription, SUBSCRIPTION)
    return {"kind": kind, "subscription": name}


def _workers(
    statuses: Sequence[WorkerStatus], subscriptions: Sequence[Subscription], now_s: float
) -> dict[tuple[str, int], str]:
    """Returns (group, partition) -> the worker that reports that it owns it."""
    groups = {subscription.uid: subscription.group for subscription in subscriptions}
    return {
        (groups[uid], partition): status.worker
        for status in statuses
        if now_s - status.time <= FRESH_S
        for uid, mine in status.subscriptions.items()
        if uid in groups
        for partition in mine.partitions
    }
