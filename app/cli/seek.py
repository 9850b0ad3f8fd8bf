"""`penstock seek`: moves the offsets of a subscription or trigger, so that it gets events again, or skips them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from app.cli.options.completion import complete_subscription
from app.cli.options.confirmation import Yes, asks, confirm
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import Format, Output, note, print_json, print_table
from app.cli.output.steps import Steps
from app.operations.contract_snapshot import Contract, choose_subscriptions, read_contract
from app.operations.seek import (
    Installation,
    controller_runs,
    planned_moves,
    read_position,
    seek_by_controller,
    seek_directly,
)
from app.settings import load_settings
from app.worker.controller_config import silent_s
from knative.contract.records import Subscription
from knative.contract.seeks import Move, SeekPhase
from knative.errors import PenstockError, UsageError

_COLUMNS = {"partition": "PARTITION", "old": "OLD", "new": "NEW", "change": "CHANGE"}
_EMPTY = "The topic has no partitions."
_PHASES = {
    "stopping": "Stopping the subscription on all workers ...",
    "moving": "Moving the offsets ...",
    "starting": "Starting the subscription again ...",
}


def seek(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SUBSCRIPTION",
            help="The subscription or trigger NAMESPACE/NAME.",
            autocompletion=complete_subscription,
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="earliest|latest|TIME|+N|-N",
            help="Where to move the offsets; a TIME is 2026-01-31T08:00:00Z.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which offsets would be moved, but move nothing.")
    ] = False,
    yes: Yes = False,
    limit_s: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to wait until the offsets are moved.")
    ] = Installation.seek_s,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Move the offsets of a subscription or trigger.

    Use it to deliver events again, or to skip events.

    It is stopped on all workers, its offsets are moved once, and it is started again. Other subscriptions of the
    channel go on. +N and -N count from the committed offset of each partition. After a move back, events are
    delivered again.

    On a terminal the command shows the offsets and asks before it moves them, unless you add --yes.

    OLD: the committed offset; empty if there was none. CHANGE: events to be repeated (-) or skipped (+).

    \b
    Examples:
      penstock seek default/good --to -10 --dry-run
      penstock seek default/good --to earliest
      penstock seek default/good --to 2026-01-31T08:00:00Z
      penstock seek default/good --to latest --yes -o json
    """
    position = read_position(to, "--to")
    settings = load_settings()
    at = Installation(kafka_client(kafka), settings.instance, silent_s(settings))
    contract = read_contract(at.client, at.instance)
    subscription = _choose(contract, name)
    if dry_run:
        _show(subscription, to, planned_moves(at, subscription, position), output, moved=False)
        return
    if asks(yes, "A seek"):
        if output is Format.TABLE:
            print_table(_COLUMNS, _rows(planned_moves(at, subscription, position)), _EMPTY)
        confirm("Move these offsets?")
    if controller_runs(at):
        moves = _by_controller(at, subscription, to, limit_s)
    else:
        moves = seek_directly(at, contract, subscription, position)
        note("No controller and no worker runs: the offsets were moved directly.")
    _show(subscription, to, moves, output, moved=True)


def _say(steps: Steps, phase: str) -> None:
    if phase in _PHASES:
        steps.tell(_PHASES[phase])


def _choose(contract: Contract, name: str) -> Subscription:
    subscriptions = choose_subscriptions(contract, name)
    if len(subscriptions) > 1:
        both = " or ".join(subscription.title for subscription in subscriptions)
        raise UsageError(f"A subscription and a trigger have the name {name}.", f"Write {both}.")
    return subscriptions[0]


def _by_controller(at: Installation, subscription: Subscription, to: str, limit_s: float) -> tuple[Move, ...]:
    try:
        with Steps() as steps:
            steps.begin("seek", "Waiting for the controller ...")
            done = seek_by_controller(at, subscription, to, limit_s, lambda phase: _say(steps, phase))
    except KeyboardInterrupt:
        note(
            "Interrupted. The request is withdrawn. If the controller has begun to move the offsets, it still "
            "completes the move."
        )
        raise typer.Exit(130) from None
    if done.phase is SeekPhase.REFUSED:
        raise PenstockError(f"The seek was refused ({done.reason}): {done.message}.")
    return done.moves


def _show(subscription: Subscription, to: str, moves: Sequence[Move], output: Format, *, moved: bool) -> None:
    name = subscription.title
    if output is Format.JSON:
        rows = [{"partition": move.partition, "old": _old(move), "new": move.new} for move in moves]
        print_json({"subscription": name, "to": to, "moved": moved, "partitions": rows})
        return
    print_table(_COLUMNS, _rows(moves), _EMPTY)
    if not moved:
        note("Dry run: nothing was moved.")


def _rows(moves: Sequence[Move]) -> list[dict[str, object]]:
    return [
        {
            "partition": move.partition,
            "old": _old(move),
            "new": move.new,
            "change": "" if move.old < 0 else f"{move.new - move.old:+d}",
        }
        for move in moves
    ]


def _old(move: Move) -> int | None:
    return None if move.old < 0 else move.old
