"""`penstock explain TRIGGER --event FILE`: whether an event would match a Trigger's filter, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options.completion import complete_trigger
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output.explanation import as_lines
from app.cli.output.format import Format, Output, print_json, writes
from app.operations.contract_snapshot import in_namespace, read_contract
from app.operations.triggers import TriggerView, trigger_in_contract, trigger_in_files
from app.settings import load_settings
from knative.contract.explanation import ASCII_MARKS, MARKS, as_json, explain_event
from knative.errors import PenstockError, UsageError


def explain(
    trigger: Annotated[
        str, typer.Argument(metavar="TRIGGER", help="NAME or NAMESPACE/NAME.", autocompletion=complete_trigger)
    ],
    event: Annotated[
        str,
        typer.Option(
            "--event", "-e", metavar="FILE", help="A CloudEvent as JSON, or an HTTP request (- = standard input)."
        ),
    ],
    resources: Annotated[
        Path | None,
        typer.Option("--resources", help="Directory with YAML files, to use instead of the resources in Kafka."),
    ] = None,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Show whether an event would match a trigger, and why.

    Exit code: 0 if it matches, 1 if not, 2 for an error.

    \b
    Examples:
      penstock explain default/payment --event event.json
      penstock explain payment --event request.txt --resources examples/broker
      penstock explain payment --event - --resources examples/broker -o json < event.json
    """
    content = _content(event)
    where = chosen_namespace(namespace, everywhere, context)
    view = _from_kafka(trigger, kafka, where) if resources is None else trigger_in_files(resources, trigger, where)
    name = "standard input" if event == "-" else event
    explanation = explain_event(view.label, view.filter, view.order, content, name)
    if output is Format.JSON:
        print_json(as_json(explanation))
    else:
        marks = MARKS if writes("".join(MARKS.values())) else ASCII_MARKS
        print("\n".join(as_lines(explanation, marks)), flush=True)
    if not explanation.passes:
        raise typer.Exit(1)


def _from_kafka(trigger: str, kafka: str, namespace: str) -> TriggerView:
    client, instance = kafka_client(kafka), load_settings().instance
    try:
        return trigger_in_contract(in_namespace(read_contract(client, instance), namespace), trigger)
    except PenstockError as problem:
        if problem.exit_code == PenstockError.exit_code:  # 1 would say that the event does not match
            raise UsageError(problem.what, problem.hint) from problem
        raise


def _content(event: str) -> bytes:
    if event == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(event).read_bytes()
    except OSError as problem:
        raise UsageError(
            f"{event} cannot be read: {problem.strerror}.",
            "Name a file that this user can read; - means standard input.",
        ) from problem
