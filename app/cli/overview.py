"""`penstock status`: channels and subscriptions, whether they are ready and how they do, as contract and workers say.

Refuses to ask a worker over HTTP: what is in Kafka is what every worker would answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import Listing, View, Views, print_json, print_yaml

if TYPE_CHECKING:
    from app.cli.contract import Contract
    from tables.progress import SubscriberDetails

_CHANNELS = Listing(
    columns={"channel": "CHANNEL", "topic": "TOPIC", "partitions": "PARTITIONS", "ready": "READY"},
    wide={"dlq_topic": "DLQ TOPIC", "path": "PATH", "generation": "GENERATION", "uid": "UID"},
    name="channel",
    empty="No channels.",
)
_SUBSCRIPTIONS = Listing(
    columns={
        "subscription": "SUBSCRIPTION",
        "channel": "CHANNEL",
        "subscriber": "SUBSCRIBER",
        "order": "ORDER",
        "ready": "READY",
        "lag": "LAG",
        "message": "MESSAGE",
    },
    wide={
        "lag_s": "LAG S",
        "delivered_per_s": "PER S",
        "in_flight": "IN FLIGHT",
        "retrying": "RETRYING",
        "next_attempt": "NEXT ATTEMPT",
        "last_error": "LAST ERROR",
        "owners": "OWNERS",
        "group": "GROUP",
        "generation": "GENERATION",
        "uid": "UID",
    },
    name="subscription",
    empty="No subscriptions.",
)
Rows = dict[str, list[dict[str, object]]]


def register(cli: typer.Typer) -> None:
    """Adds `status` to the commands."""
    cli.command("status")(status)


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it until Ctrl-C.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two looks with --watch.")] = 2.0,
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")] = "",
    output: Views = View.TABLE,
) -> None:
    """Show channels and subscriptions: ends with 0 when all are ready, else with 3.

    With -o wide also how each subscription does: lag, rate of the last minute, retries, last error, who serves it.

    \b
    Examples:
      penstock status
      penstock status -o wide --watch
      penstock status -o json
      penstock status --kafka 127.0.0.1:9092
    """
    from app.cli.contract import read_contract
    from app.cli.receive import kafka_client
    from app.settings import load_settings

    client, instance = kafka_client(kafka), load_settings().instance

    def look() -> Rows:
        return rows(read_contract(client, instance), time.time())

    if watch:
        from app.cli import watching

        watching.watch(look, lambda shown: _show_next(shown, output), _tables, every_s, output)
        return
    shown = look()
    _show(shown, output)
    if any(row["ready"] != "True" for row in shown["subscriptions"]):
        raise typer.Exit(3)


def _show(shown: Rows, output: View) -> None:
    if output is View.JSON:
        print_json(shown)
    elif output is View.YAML:
        print_yaml(shown)
    elif output is View.NAME:
        for kind in ("channel", "subscription"):
            for row in shown[f"{kind}s"]:
                print(f"{kind}/{row[kind]}")
    else:
        _CHANNELS.show(shown["channels"], output)
        print()
        _SUBSCRIPTIONS.show(shown["subscriptions"], output)


def _show_next(shown: Rows, output: View) -> None:
    """One of several looks, apart from the next."""
    _show(shown, output)
    if output in (View.TABLE, View.WIDE):
        print(flush=True)
    elif output is View.YAML:
        print("---", flush=True)


def _tables(shown: Rows) -> list[tuple[Listing, list[dict[str, object]]]]:
    return [(_CHANNELS, shown["channels"]), (_SUBSCRIPTIONS, shown["subscriptions"])]


def rows(contract: Contract, now_s: float) -> Rows:
    """Rows of both tables. A channel is ready when all its subscriptions are."""
    from tables.status import subscriber_details

    found = {one.uid: subscriber_details(one, contract.workers, now_s) for one in contract.subscriptions}
    subscriptions: list[dict[str, object]] = [
        {
            "subscription": one.label,
            "uid": one.uid,
            "generation": one.generation,
            "channel": one.channel,
            "subscriber": one.subscriber.uri,
            "order": str(one.order),
            "group": one.group,
            "ready": found[one.uid].status.ready,
            "message": found[one.uid].status.message,
            **_progress(found[one.uid]),
        }
        for one in contract.subscriptions
    ]
    channels: list[dict[str, object]] = [
        {
            "channel": f"{one.namespace}/{one.name}",
            "uid": one.uid,
            "generation": one.generation,
            "topic": one.topic,
            "dlq_topic": one.dlq_topic,
            "partitions": one.partitions,
            "hosts": list(one.hosts),
            "path": one.path,
            "ready": str(
                all(found[s.uid].status.ready == "True" for s in contract.subscriptions if s.channel_uid == one.uid)
            ),
        }
        for one in contract.channels
    ]
    return {"channels": channels, "subscriptions": subscriptions}


def _progress(found: SubscriberDetails) -> dict[str, object]:
    """How a subscription does over all workers; None = nobody knows."""
    from app.cli.moments import show_moment

    known = found.as_of is not None
    error = found.last_error[1] if found.last_error else None
    place = f"{error.reason} (partition {error.partition}, offset {error.offset})" if error else None
    return {
        "lag": found.lag if known else None,
        "lag_s": None if found.lag_s is None or not known else round(found.lag_s, 1),
        "delivered_per_s": round(found.delivered_per_s, 1) if known else None,
        "in_flight": found.in_flight if known else None,
        "retrying": found.retrying if known else None,
        "next_attempt": show_moment(found.next_attempt) if found.next_attempt else None,
        "last_error": place,
        "last_error_at": show_moment(error.time) if error else None,
        "owners": ", ".join(f"{worker}: {_numbers(numbers)}" for worker, numbers in found.owners) or None,
    }


def _numbers(partitions: tuple[int, ...]) -> str:
    """0-9 where they follow each other, else 0,3,7."""
    first, last = partitions[0], partitions[-1]
    if len(partitions) > 1 and last - first == len(partitions) - 1:
        return f"{first}-{last}"
    return ",".join(map(str, partitions))
