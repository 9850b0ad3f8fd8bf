"""`penstock status`: channels and subscriptions, and whether they are ready, as the contract and the workers say.

Refuses to ask a worker over HTTP: what is in Kafka is what every worker would answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import Format, Output, print_json, print_table

if TYPE_CHECKING:
    from app.cli.contract import Contract

_CHANNELS = {"channel": "CHANNEL", "topic": "TOPIC", "partitions": "PARTITIONS", "ready": "READY"}
_SUBSCRIPTIONS = {
    "subscription": "SUBSCRIPTION",
    "channel": "CHANNEL",
    "subscriber": "SUBSCRIBER",
    "order": "ORDER",
    "ready": "READY",
    "message": "MESSAGE",
}


def register(cli: typer.Typer) -> None:
    """Adds `status` to the commands."""
    cli.command("status")(status)


def status(
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Show channels and subscriptions: ends with 0 when all are ready, else with 3.

    \b
    Examples:
      penstock status
      penstock status -o json
      penstock status --kafka 127.0.0.1:9092
    """
    from app.cli.contract import read_contract
    from app.cli.receive import kafka_client
    from app.settings import load_settings

    contract = read_contract(kafka_client(kafka), load_settings().instance)
    shown = rows(contract, time.time())
    if output is Format.JSON:
        print_json(shown)
    else:
        print_table(_CHANNELS, shown["channels"], "No channels.")
        print()
        print_table(_SUBSCRIPTIONS, shown["subscriptions"], "No subscriptions.")
    if any(row["ready"] != "True" for row in shown["subscriptions"]):
        raise typer.Exit(3)


def rows(contract: Contract, now_s: float) -> dict[str, list[dict[str, object]]]:
    """Rows of both tables. A channel is ready when all its subscriptions are."""
    from tables.status import subscriber_status

    readiness = {one.uid: subscriber_status(one, contract.workers, now_s) for one in contract.subscriptions}
    subscriptions: list[dict[str, object]] = [
        {
            "subscription": one.label,
            "uid": one.uid,
            "generation": one.generation,
            "channel": one.channel,
            "subscriber": one.subscriber.uri,
            "order": str(one.order),
            "group": one.group,
            "ready": readiness[one.uid].ready,
            "message": readiness[one.uid].message,
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
                all(readiness[s.uid].ready == "True" for s in contract.subscriptions if s.channel_uid == one.uid)
            ),
        }
        for one in contract.channels
    ]
    return {"channels": channels, "subscriptions": subscriptions}
