"""`penstock lag`: how far each subscription is behind, partition by partition, in events and in seconds.

Reads committed offsets and the ends of topics from Kafka; joins no group. Refuses to ask a worker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.completion import complete_channel, complete_subscription
from app.cli.output import Listing, View, Views

if TYPE_CHECKING:
    from app.lag import Lag
    from knative.contract import Subscription, WorkerStatus

_LISTING = Listing(
    columns={
        "subscription": "SUBSCRIPTION",
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
    empty="Nothing to show: no subscription, or none that is behind.",
)


def register(cli: typer.Typer) -> None:
    """Adds `lag` to the commands."""
    cli.command("lag")(lag)


def lag(
    subscription: Annotated[
        str,
        typer.Option("--subscription", "-s", help="Only NAMESPACE/NAME.", autocompletion=complete_subscription),
    ] = "",
    channel: Annotated[
        str, typer.Option("--channel", help="Only those of NAMESPACE/NAME.", autocompletion=complete_channel)
    ] = "",
    behind: Annotated[bool, typer.Option("--behind", help="Only partitions that are behind.")] = False,
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")] = "",
    output: Views = View.TABLE,
) -> None:
    """Show how far each subscription is behind, per partition: the furthest first.

    EVENTS are those that are not settled yet; BEHIND is the age of the oldest of them.

    \b
    Examples:
      penstock lag
      penstock lag --behind -o wide
      penstock lag --subscription default/quickstart-good -o json
      penstock lag --behind -o name
    """
    from app.cli.contract import choose_subscriptions, read_contract
    from app.cli.receive import kafka_client
    from app.settings import load_settings

    client = kafka_client(kafka)
    contract = read_contract(client, load_settings().instance)
    chosen = choose_subscriptions(contract, subscription, channel)
    now_s = time.time()
    found = [one for one in measure(client, chosen, now_s) if one.events or not behind]
    _LISTING.show(rows(found, _workers(contract.workers, chosen, now_s)), output)


def measure(client: Mapping[str, Any], subscriptions: Sequence[Subscription], now_s: float) -> list[Lag]:
    """Every partition of these subscriptions, the furthest behind first."""
    from app.lag import by_lag, events_behind, lag_of
    from app.positions import read_positions, timestamps

    positions = read_positions(client, subscriptions)
    oldest = timestamps(client, (one.place for one in positions if events_behind(one)))
    return by_lag(lag_of(one, oldest.get(one.place), now_s) for one in positions)


def rows(lags: Sequence[Lag], workers: Mapping[tuple[str, int], str]) -> list[dict[str, object]]:
    """`seconds` is null where the oldest record could not be read; `behind` is the same for people."""
    from app.cli.moments import show_duration

    return [
        {
            "subscription": one.position.subscription,
            "partition": one.position.partition,
            "events": one.events,
            "seconds": None if one.seconds is None else round(one.seconds, 3),
            "behind": show_duration(one.seconds),
            "committed": one.position.committed,
            "end": one.position.end,
            "state": one.position.state,
            "channel": one.position.channel,
            "topic": one.position.topic,
            "group": one.position.group,
            "start": one.position.start,
            "settled_above": len(one.position.settled),
            "attempts": max(one.position.attempts.values(), default=0),
            "worker": workers.get((one.position.group, one.position.partition), ""),
        }
        for one in lags
    ]


def _workers(
    statuses: Sequence[WorkerStatus], subscriptions: Sequence[Subscription], now_s: float
) -> dict[tuple[str, int], str]:
    """(group, partition) -> the worker that says it owns it."""
    from tables.status import FRESH_S

    groups = {one.uid: one.group for one in subscriptions}
    return {
        (groups[uid], partition): status.worker
        for status in statuses
        if now_s - status.time <= FRESH_S
        for uid, mine in status.subscriptions.items()
        if uid in groups
        for partition in mine.partitions
    }
