"""`penstock validate`: reports what is wrong with a directory of resources before anything runs; for pipelines.

Needs neither Kafka nor a worker: it reads the files with the controller's own rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.output.format import Listing, View, Views, note
from app.operations.plural import count
from app.settings import load_settings
from app.worker.controller_config import controller_config
from controller.model import FileProblem
from controller.validation import Found
from controller.validation import validate as check

_LISTING = Listing(
    columns={"place": "FILE", "field": "FIELD", "level": "LEVEL", "problem": "PROBLEM"},
    wide={"object": "OBJECT"},
    name="file",
    empty="",
)


def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory with YAML or JSON files of resources.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 for warnings too.")] = False,
    output: Views = View.TABLE,
) -> None:
    """Check resource files.

    Exit code: 0 if the files have no errors, else 1.

    Errors name file, line and field. A warning is about a document that has no effect: it has another kind, or is a
    Broker of another class, or an EventType that names no channel or Broker of the directory.

    The command uses the settings of the controller, such as PENSTOCK_TOPIC_TEMPLATE.

    \b
    Examples:
      penstock validate examples/quickstart
      penstock validate examples/quickstart -o json
    """
    settings = load_settings()
    content = check(controller_config(settings, {}, folder))
    if content.problems or output in (View.JSON, View.YAML):
        _LISTING.show([_row(problem, content) for problem in content.problems], output)
    if output in (View.TABLE, View.WIDE):
        note(summary(content))
    if content.errors or (strict and content.problems):
        raise typer.Exit(1)


def summary(content: Found) -> str:
    """Returns one sentence."""
    warnings = len(content.problems) - len(content.errors)
    kinds = [object_.resource.kind for object_ in content.objects]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds))) or "no object"
    return f"{counts}: {count(len(content.errors), 'error')}, {count(warnings, 'warning')}."


def _row(file_problem: FileProblem, content: Found) -> dict[str, object]:
    return {
        "place": f"{file_problem.file}:{file_problem.line}" if file_problem.line else file_problem.file,
        "file": file_problem.file,
        "line": file_problem.line or None,
        "field": file_problem.field,
        "level": "error" if file_problem in content.errors else "warning",
        "object": file_problem.object,
        "problem": f"{file_problem.what}; {file_problem.hint}" if file_problem.hint else file_problem.what,
    }
