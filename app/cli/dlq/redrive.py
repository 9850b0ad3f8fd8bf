"""`penstock dlq redrive`: delivers dead letters to their own subscription again, once each, at a chosen rate.

The redrive ledger in Kafka records which ones were redriven, so an interrupted or killed run continues where it was.
Redrives everything only with `--all`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from app.cli.dlq.groups import GROUPS, group_rows, named
from app.cli.dlq.selection import (
    ChannelOption,
    DeadLetterQuery,
    Reason,
    Refs,
    Since,
    SubscriptionOption,
    Topic,
    Until,
    query,
    reject_both,
)
from app.cli.options.confirmation import Yes, asks, confirm
from app.cli.options.kafka import Kafka
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output.format import Format, Output, View, escaped, note, print_json
from app.cli.output.steps import Steps
from app.operations.dead_letters.editing import edit, read_edited
from app.operations.dead_letters.letters import DeadLetter, group
from app.operations.dead_letters.rate import read_rate
from app.operations.dead_letters.reader import Starts, read_named
from app.operations.dead_letters.redrive import Redrive, RedriveConfig
from app.operations.dead_letters.running import RedrivePlace, Told, run_redrive
from app.operations.dead_letters.summary import Summary
from app.operations.stored_records import as_json
from app.settings import load_settings
from app.timing import LOOK_S, SAY_S
from knative.errors import UsageError


def redrive(
    refs: Refs = None,
    subscription: SubscriptionOption = "",
    channel: ChannelOption = "",
    everything: Annotated[
        bool, typer.Option("--all", help="The letters of all subscriptions, or with -n of one namespace.")
    ] = False,
    topic: Topic = "",
    reason: Reason = "",
    since: Since = "",
    until: Until = "",
    edited: Annotated[
        Path | None, typer.Option("--with", help="Send this file instead: a letter from `dlq show -o json`, edited.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be redriven, but send nothing.")] = False,
    yes: Yes = False,
    rate: Annotated[str, typer.Option("--rate", help="Rate limit, such as 20/s or 100/m; by default no limit.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Redrive at most this many letters.")] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, max=100, help="Retries for each letter.")] = 3,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=1000, help="Letters in flight at a time; 1 keeps their order.")
    ] = 1,
    failures: Annotated[int, typer.Option("--failures", min=1, help="Stop after this many failures in a row.")] = 10,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Deliver dead letters again, each to the subscriber of its subscription only, with its id and attributes.

    A ledger in Kafka records what was redriven, so an interrupted run continues when it is started again, and repeats
    at most what was in flight. Exit code: 0 if all were delivered, 4 if some were, 1 if none was. A second run waits
    up to half a minute for the first to end. On a terminal it shows what it would redrive and asks, unless you add
    --yes.

    \b
    Examples:
      penstock dlq redrive --subscription default/picky --dry-run
      penstock dlq redrive --subscription default/picky --rate 20/s
      penstock dlq redrive --channel default/quickstart --reason "answer was 500" --since 2h
      penstock dlq redrive --all --limit 100 --in-flight 10 --yes -o json
      penstock dlq show --last 1 -o json > letter.json
      penstock dlq redrive --with letter.json
    """
    only = chosen_namespace(namespace, everywhere, context)
    if edited is not None and (
        refs or subscription or channel or topic or everything or reason or since or until or only
    ):
        raise UsageError(
            "--with cannot be combined with other letters.",
            "The file names its letter. Remove the other options that choose letters.",
        )
    if not (refs or subscription or channel or topic or everything or edited):
        raise UsageError("No letters are chosen.", "Use --subscription, --channel, letters, or --all.")
    reject_both(refs, subscription, channel, topic, reason, since, until, only)
    config = RedriveConfig(read_rate(rate), limit, retries, in_flight, failures)
    where = query(kafka, subscription, channel, topic, reason, since, until, only)
    letters = [_edited(where, edited)] if edited is not None else None
    if dry_run or asks(yes, "A redrive"):
        rows = _waiting(where, letters or _letters(where, refs or ()), limit)
        if not _goes_on(rows, output, dry_run=dry_run):
            return
    summary = asyncio.run(_run(where, refs or (), config, letters))
    if output is Format.JSON:
        print_json(summary.as_json())
    else:
        print("\n".join(summary.as_lines()))
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


def _goes_on(rows: list[dict[str, object]], output: Format, *, dry_run: bool) -> bool:
    """Show what would be redriven, and ask. Raises PenstockError for a no."""
    if dry_run or output is Format.TABLE:
        GROUPS.show(rows, View.JSON if output is Format.JSON else View.TABLE)
    if dry_run and output is Format.TABLE and rows:
        note("Dry run: nothing was sent. Without --dry-run, the command redrives these letters.")
    if rows and not dry_run:
        confirm("Redrive them?")
    return not dry_run


def _letters(where: DeadLetterQuery, refs: Sequence[str], starts: Starts | None = None) -> Iterator[DeadLetter]:
    return read_named(where.client, refs) if refs else where.letters(starts)


def _edited(where: DeadLetterQuery, file: Path) -> DeadLetter:
    """Returns the dead letter that the file names, with the content of the file. Raises UsageError, PenstockError."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "the file is not UTF-8"
        raise UsageError(f"{file} cannot be read: {why}.", "Check --with.") from problem
    document = read_edited(text, str(file))
    (letter,) = read_named(where.client, [document["letter"]])
    return edit(letter, document, as_json(letter.record))


def _waiting(where: DeadLetterQuery, letters: Iterable[DeadLetter], limit: int | None) -> list[dict[str, object]]:
    """Returns the groups of the letters that are not redriven yet."""
    ledger = where.ledger()
    waiting = (letter for letter in letters if not ledger.has(letter))
    return group_rows(group((letter, False) for letter in islice(waiting, limit)))


async def _run(
    where: DeadLetterQuery, refs: Sequence[str], config: RedriveConfig, letters: Sequence[DeadLetter] | None
) -> Summary:
    """Redrive the selected letters, or `letters` in place of these. Returns counts and reasons."""

    def report(letter: DeadLetter, reason: str) -> None:
        note(
            escaped(f"failed: {letter.ref} id={letter.event_id} {named(letter.subscription)['subscription']}: {reason}")
        )

    progress: list[asyncio.Task[None]] = []

    def started(run: Redrive) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, run.stop, "it was interrupted")
        progress.append(loop.create_task(_say_how_far(run.summary, steps)))

    place = RedrivePlace(load_settings(), where.client, where.contract.subscriptions, where.contract.channels)
    source = (lambda _: iter(letters)) if letters else partial(_letters, where, refs)
    with Steps() as steps:
        steps.begin("redrive", "Waiting for another redrive to end ...")
        try:
            return await run_redrive(place, config, source, Told(report, steps.tell, started))
        finally:
            for task in progress:
                task.cancel()


async def _say_how_far(summary: Summary, steps: Steps) -> None:
    while True:
        await asyncio.sleep(LOOK_S if steps.spins else SAY_S)
        steps.tell(f"redriven {summary.redriven}, failed {summary.failed} ...")
