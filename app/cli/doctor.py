"""`penstock doctor`: what is wrong with an installation and its surroundings, and what to do; one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import STYLES, Listing, View, Views, note
from app.operations.doctor.check import Answer, Level
from app.operations.doctor.examine import examine
from app.operations.doctor.table import Check, Facts, answers
from app.operations.plural import count
from app.settings.load import load_settings
from knative.errors import UsageError

_LISTING = Listing(
    columns={"level": "LEVEL", "check": "CHECK", "found": "FOUND", "hint": "WHAT TO DO"},
    name="check",
    empty="",
)


def doctor(
    context: Annotated[
        str, typer.Option("--context", help="Check the cluster of this context of the kubeconfig.")
    ] = "",
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """Check the whole installation, and show how to fix what is wrong.

    It checks settings, Kafka, workers, topics and resources. Exit code: 1 if there is a problem.

    PENSTOCK_RESOURCES says whether resources are in a directory or a cluster. In a cluster the command also checks
    the CRDs, who resolves Subscriptions, and whether the user of the kubeconfig may do what the controller does: run
    it as that user.

    The command takes up to ten seconds, because it waits for the reports of all workers. It changes nothing, except
    that it commits an offset, for the clock of Kafka, in a group of its own, which it deletes again.

    \b
    Examples:
      penstock doctor
      penstock doctor -o json
      penstock doctor --kafka 127.0.0.1:9092
      penstock doctor --context production
    """
    rows = list(answers(_facts(kafka, context)))
    _show(rows, output)
    bad = [answer for _, answer in rows if answer.level is Level.PROBLEM]
    if output in (View.TABLE, View.WIDE):
        warnings = sum(answer.level is Level.WARNING for _, answer in rows)
        note(f"{count(len(rows), 'check')}: {count(len(bad), 'problem')}, {count(warnings, 'warning')}.")
    if bad:
        raise typer.Exit(1)


def _facts(kafka: str, context: str) -> Facts:
    try:
        settings = load_settings()
    except UsageError as error:  # no setting can be trusted, so there is nothing else to look at
        return Facts(failed={"settings": error})
    try:
        client = kafka_client(kafka)
    except UsageError as error:  # the Kafka secret is not valid; settings and resources can be checked without it
        return examine(settings, error, context)
    return examine(settings, client, context)


def _show(rows: Sequence[tuple[Check, Answer]], output: View) -> None:
    """Print for people, a line as long as it must be: columns would be folded on a narrow terminal."""
    if output not in (View.TABLE, View.WIDE):
        _LISTING.show([_row(*row) for row in rows], output)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for check, answer in rows:
        level = (f"{answer.level.value:<8}", STYLES[answer.level.value])
        text = f"{answer.text.rstrip('.')} -> {answer.hint}" if answer.hint else answer.text
        console.print(Text.assemble(level, f" {check.name}: {text}"))


def _row(check: Check, answer: Answer) -> dict[str, object]:
    head = {"level": answer.level.value, "check": check.name, "question": check.question}
    return {**head, "found": answer.text, "hint": answer.hint}
