"""`penstock census topiclist`, `offsets` and `rmtopics`: list topics, show how far they are read, remove them.

Removes topics only with --force or after a yes at the terminal, and never Kafka's own topics.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.census.checkpoint import readers
from app.census.topics import Topics, changelogs
from app.cli.census.options import CHECKPOINT, COMPUTE, RESULTS, Checkpoint, DryRun, show_plan
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import Listing, View, Views, note
from app.settings import load_settings
from knative.errors import PenstockError, UsageError

_TOPICS = Listing(
    columns={"topic": "TOPIC", "partitions": "PARTITIONS", "replicas": "REPLICAS"},
    wide={"id": "ID"},
    name="topic",
    empty="There are no topics.",
)
_OFFSETS = Listing(
    columns={
        "topic": "TOPIC", "partition": "PARTITION", "start": "START", "end": "END", "committed": "COMMITTED",
        "lag": "LAG", "reader": "READER",
    },
    name="topic",
    empty="The topic has no partitions.",
)  # fmt: skip

Names = Annotated[str, typer.Option("--topic", help="Topics, comma-separated.")]


def topiclist(kafka: Kafka = "", output: Views = View.TABLE) -> None:
    """List the topics of this Kafka, without its internal ones.

    \b
    Examples:
      penstock census topiclist
      penstock census topiclist -o name
    """
    rows = [
        {"topic": one.name, "partitions": one.partitions, "replicas": one.replicas, "id": one.id}
        for one in _topics(kafka).all()
    ]
    _TOPICS.show(rows, output)


def offsets(
    topic: Names = f"{COMPUTE},{RESULTS}", kafka: Kafka = "", checkpoint: Checkpoint = CHECKPOINT,
    output: Views = View.TABLE,
) -> None:  # fmt: skip
    """Show the offsets of topics and of their readers: consumer groups, and Spark by its checkpoint.

    \b
    Examples:
      penstock census offsets
      penstock census offsets --topic compute -o json
    """
    found = _topics(kafka)
    rows = [
        {
            "topic": one.topic, "partition": one.partition, "start": one.start, "end": one.end,
            "committed": one.committed, "lag": one.lag, "reader": one.reader or None,
        }
        for name in _split(topic)
        for one in readers(found, name, checkpoint)
    ]  # fmt: skip
    _OFFSETS.show(rows, output)


def rmtopics(
    topic: Names = f"{COMPUTE},{RESULTS}",
    kafka: Kafka = "",
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete topics and all records in them; with a results topic, its totals are deleted too.

    Stop `compute` and `results` first: they exit when their topics are deleted.

    \b
    Examples:
      penstock census rmtopics
      penstock census rmtopics --topic compute --force
    """
    found = _topics(kafka)
    there = set(found.names())
    for name in (names := _split(topic)):
        if name.startswith("__"):
            raise UsageError(f"{name} is an internal topic of Kafka.", "It cannot be removed.")
        if name not in there:
            note(f"There is no topic {name}.")
    wanted = [name for name in names if name in there]
    wanted += changelogs(load_settings().instance, found.describe(wanted), there)
    if dry_run:
        show_plan({"command": "rmtopics", "topics": wanted})
        return
    if not wanted:
        return
    if not force:
        _ask(wanted)
    problems = found.remove(wanted)
    for name in wanted:
        if name not in problems:
            print(f"Removed {name}.")
    if problems:
        reasons = "; ".join(f"{name}: {why}" for name, why in problems.items())
        raise PenstockError(f"Kafka did not delete all of them ({reasons}).", "Try again.")


def _ask(names: list[str]) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"This removes {', '.join(names)} and all records in them.", "Use --force to do it.")
    if not typer.confirm(f"Remove {', '.join(names)} and all records in them?"):
        raise typer.Exit(1)


def _topics(kafka: str) -> Topics:
    return Topics(kafka_client(kafka))


def _split(names: str) -> list[str]:
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise UsageError("--topic is empty.", "Write --topic compute,results.")
    return list(dict.fromkeys(found))
