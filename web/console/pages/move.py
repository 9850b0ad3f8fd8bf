"""Moves the offsets of a subscription, with a preview of what each partition repeats or skips. As `penstock seek`."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from knative.contract.records import Subscription
from knative.contract.seeks import Move
from knative.errors import PenstockError
from web.console.page import Ask, NotThere, Page, Seen, Values, choices
from web.console.safety import Mode
from web.console.state import State


def subscriptions_of(state: State) -> list[Subscription]:
    """Returns the subscriptions that have offsets."""
    records = [status.subscription for status in state.resources if status.subscription is not None]
    return sorted(records, key=lambda record: (record.namespace, record.name, record.kind))


def move_rows(moves: Sequence[Move]) -> list[Values]:
    """Returns what each partition repeats or skips. Without a committed offset, delivery begins where the log does."""
    return [
        {
            "partition": move.partition,
            "old": None if move.old < 0 else move.old,
            "new": move.new,
            "repeats": max(0, move.old - move.new) if move.old >= 0 else None,
            "skips": max(0, move.new - move.old) if move.old >= 0 else None,
        }
        for move in moves
    ]


def _find(state: State, title: str) -> Subscription | None:
    for subscription in subscriptions_of(state):
        if title == subscription.title:
            return subscription
    if title:
        raise NotThere(f"The subscription or trigger {title[:300]} does not exist.")
    return None


async def _preview(ask: Ask) -> Values:
    values: Values = {
        "tasks": [task for task in ask.acts.tasks() if task.act == "seek"],
        "may_write": ask.mode is Mode.WRITE,
    }
    if ask.is_live:
        return values
    subscription, to = _find(ask.state, ask.query.get("of", "")), ask.query.get("to", "").strip()
    rows, problem = None, None
    if subscription is not None and to:
        try:
            rows = move_rows(await ask.acts.moves(subscription, to))
        except PenstockError as raised:
            problem = str(raised)
    return {
        **values,
        "titles": choices({row.title: row.title for row in subscriptions_of(ask.state)}, ask.limits.rows_max),
        "title": ask.query.get("of", ""),
        "to": to,
        "rows": rows,
        "repeats": sum(row["repeats"] or 0 for row in rows or ()),  # type: ignore[misc]
        "skips": sum(row["skips"] or 0 for row in rows or ()),  # type: ignore[misc]
        "problem": problem,
        "command": None if subscription is None or not to else _command(subscription, to),
    }


def _command(subscription: Subscription, to: str) -> str:
    return f"penstock seek {quote(subscription.title)} --to {quote(to)} --dry-run"


async def _seek(ask: Ask) -> Values | Seen:
    subscription = _find(ask.state, ask.query.get("of", ""))
    if subscription is None:
        raise NotThere("No subscription is chosen.")
    try:
        await ask.acts.seek(subscription, ask.query.get("to", "").strip(), ask.who)
    except PenstockError as raised:
        return {"problem": str(raised)}
    return Seen("/move")


PAGES = (Page("/move", "move.html", _preview, nav="Move", place=40, post=_seek),)
