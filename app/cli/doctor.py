"""`penstock doctor`: what is wrong with an installation and its surroundings, and what to do; one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import STYLES, Listing, View, Views, note
from app.operations.doctor.check import Check, Level, failure
from app.operations.doctor.examine import SETTINGS, examine
from app.operations.plural import count
from app.settings.load import Settings, load_settings
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
    """Check the whole installation, and say what to do.

    Settings, Kafka, workers, topics and resources. Exit code: 1 if there is a problem.

    Resources are a directory or a cluster, as PENSTOCK_RESOURCES says. In a cluster it also checks the CRDs, who
    resolves Subscriptions, and whether the user of the kubeconfig may do what the controller does: run it as that user.

    It takes up to ten seconds, because it waits for reports of all workers. It changes nothing, except that
    it commits an offset, for the clock of Kafka, in a group of its own, which it deletes again.

    \b
    Examples:
      penstock doctor
      penstock doctor -o json
      penstock doctor --kafka 127.0.0.1:9092
      penstock doctor --context production
    """
    try:
        settings = load_settings()
    except UsageError as error:  # no setting can be trusted, so there is nothing else to look at
        checks = [failure(SETTINGS, error)]
    else:
        checks = _examined(settings, kafka, context)
    _show(checks, output)
    bad = [one for one in checks if one.level is Level.PROBLEM]
    if output in (View.TABLE, View.WIDE):
        warnings = sum(one.level is Level.WARNING for one in checks)
        note(f"{count(len(checks), 'check')}: {count(len(bad), 'problem')}, {count(warnings, 'warning')}.")
    if bad:
        raise typer.Exit(1)


def _examined(settings: Settings, kafka: str, context: str) -> list[Check]:
    try:
        client = kafka_client(kafka)
    except UsageError as error:  # the Kafka secret is not valid; settings and resources can be checked without it
        return [failure("Kafka secret", error), *examine(settings, None, context)]
    return examine(settings, client, context)


def _show(checks: Sequence[Check], output: View) -> None:
    """For people, a line as long as it must be: columns would be folded on a narrow terminal."""
    if output not in (View.TABLE, View.WIDE):
        _LISTING.show([_row(one) for one in checks], output)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for one in checks:
        level = (f"{one.level.value:<8}", STYLES[one.level.value])
        text = f"{one.found.rstrip('.')} -> {one.hint}" if one.hint else one.found
        console.print(Text.assemble(level, f" {one.name}: {text}"))


def _row(one: Check) -> dict[str, object]:
    return {"level": one.level.value, "check": one.name, "found": one.found, "hint": one.hint}
