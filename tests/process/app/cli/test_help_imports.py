"""Help imports none of the commands that it lists."""

from __future__ import annotations

import json
import os
import sys

import pytest
import typer.main

from app.cli import cli
from tests.support.commands import listed_in
from tests.support.processes import run

_MODULES = """
import json, sys
from app.cli import cli
try:
    cli(sys.argv[1:], prog_name="penstock")
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def _imported(*arguments: str) -> set[str]:
    done = run([sys.executable, "-c", _MODULES, *arguments], os.environ)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["--help"], set()),
        (["dlq", "--help"], {"app.cli.dlq.group"}),
        (["kafka", "--help"], {"app.cli.kafka"}),
        (["send", "--help"], {"app.cli.send"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_help_imports_no_other_command(arguments: list[str], own: set[str]) -> None:
    imported = _imported(*arguments)
    places = {listed.place.partition(":")[0] for _, listed in listed_in(typer.main.get_command(cli))}
    assert imported & places == own
    assert not imported & {"faust", "confluent_kafka", "pyspark"}
