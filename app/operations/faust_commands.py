"""Replaces three of Faust's commands: `faust -A app agents` and `tables` show what runs, `send` names the alternative.

Agents of subscriptions are created while a worker runs, and the table belongs to its second Faust app, so Faust's own
commands would find nothing. Its `send` would wait for ever for a producer that is switched off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from knative.contract import kafka_names
from knative.errors import PenstockError
from tables.faust_support import replace_commands

_ANY = {"ignore_unknown_options": True, "allow_extra_args": True}


def install() -> None:
    """Replace Faust's commands, in a process that runs Faust's command line."""
    replace_commands(_AGENTS, _TABLES, _SEND)


def _agents() -> None:
    """List the agents: one for each subscription, and the one that sums up traffic."""
    from app.operations.contract_snapshot import read_contract
    from app.settings import load_settings
    from app.settings.kafka import kafka_client
    from tables.traffic_windows.faust_table import AGENT, TrafficConfig

    settings = load_settings()
    contract = read_contract(kafka_client(settings), settings.instance)
    rows = [
        (
            kafka_names.agent_name(subscription.namespace, subscription.name, subscription.uid),
            subscription.topic,
            f"delivers to {subscription.subscriber.shown_uri}",
        )
        for subscription in contract.subscriptions
    ]
    if settings.traffic:
        rows.append((AGENT, TrafficConfig(settings.instance).topic, "sums up traffic in windows"))
    _print(("NAME", "TOPIC", "HELP"), rows)


def _tables() -> None:
    """List the tables and the topic of each."""
    from app.settings import load_settings
    from tables.traffic_windows.faust_table import TrafficConfig

    settings = load_settings()
    rows = [
        (
            "contract",
            kafka_names.contract_topic(settings.instance),
            "channels and subscriptions that the controller publishes",
        ),
        ("status", kafka_names.status_topic(settings.instance), "what each worker serves, with lag and errors"),
    ]
    if settings.traffic:
        rows.append(
            (
                kafka_names.WINDOWS_TABLE,
                TrafficConfig(settings.instance).changelog,
                "traffic in windows of 10 s and 1 min",
            )
        )
    _print(("NAME", "TOPIC", "HELP"), rows)


def _send() -> None:
    """Not available: send events over HTTP, for example with `penstock send`."""
    raise _NoSend(
        "`faust send` does not work with Penstock: events enter over HTTP, where they are checked.",
        "Use `penstock send --channel NAMESPACE/NAME`, or POST to /channels/NAMESPACE/NAME.",
    )


class _NoSend(PenstockError):
    exit_code = 2


def _print(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in (headers, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _command(name: str, work: Callable[[], None]) -> click.Command:
    def run(*_: Any, **__: Any) -> None:
        try:
            work()
        except PenstockError as problem:
            print(problem, file=sys.stderr)
            raise SystemExit(problem.exit_code) from problem

    return click.Command(name, callback=run, help=work.__doc__, context_settings=dict(_ANY))


_AGENTS = _command("agents", _agents)
_TABLES = _command("tables", _tables)
_SEND = _command("send", _send)
