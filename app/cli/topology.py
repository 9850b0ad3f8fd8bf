"""`penstock topology`: who sends what to whom, and what is wrong with it, as a report. Questions about it are commands
of their own in `app/cli/topology_questions`.

Uses Spark only for `--engine graphframes`, and with `auto` for the largest maps. `analytics/topology` finds everything.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analytics.spark.session import spark_session
from analytics.topology import exports
from analytics.topology.compare import Difference, compare
from analytics.topology.engines.choice import LOCAL_EDGES_MAX, EngineChoice, choose
from analytics.topology.formats.asyncapi import asyncapi
from analytics.topology.formats.backstage import backstage
from analytics.topology.formats.graphml import graphml
from analytics.topology.formats.openlineage import openlineage
from analytics.topology.model.document import A_PART, SEVERITIES, Severity, Tier, Topology, to_json
from analytics.topology.model.facts import facts_of
from app.cli.commands import Commands, Entry
from app.cli.options.extras import need_or_install
from app.cli.options.given import given
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.namespace import AllNamespaces, Context, chosen_namespace
from app.cli.options.spark import Memory, interruptible
from app.cli.output.format import note, print_json
from app.cli.output.topology import show_difference, show_topology
from app.operations.spark_jars import spark_options
from app.operations.times import read_time
from app.operations.topology.asking import read_document
from app.operations.topology.reading import TopologyQuery, read_inputs
from app.operations.topology.writing import PAGE, write_report
from app.settings import load_settings
from app.settings.extras import ANALYTICS, REPORT
from knative.errors import UsageError

if TYPE_CHECKING:
    from analytics.topology.engines.port import Engine

_WINDOW = "10m"


class TrafficName(StrEnum):
    """Where the traffic numbers come from."""

    AUTO = "auto"
    WINDOWS = "windows"
    DELTAS = "deltas"
    STATUS = "status"
    NONE = "none"


class Shape(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    CSV = "csv"
    HTML = "html"
    GRAPHML = "graphml"
    ASYNCAPI = "asyncapi"
    OPENLINEAGE = "openlineage"
    BACKSTAGE = "backstage"


class Level(StrEnum):
    """The values of `--fail-on`."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


Engines = Annotated[
    EngineChoice,
    typer.Option(
        "--engine",
        help="Graph engine: local (this process) or GraphFrames on Spark; auto: local up to 10,000,000 edges.",
    ),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Only this namespace, and everything connected to it.")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write report.html, topology.json, tables and pictures to this folder.")
]
Since = Annotated[
    str, typer.Option("--since", help="Traffic since a time: how long ago (90s, 10m, 2d), or an RFC 3339 time.")
]
Until = Annotated[str, typer.Option("--until", help="Traffic before a time, in the same format; by default until now.")]
TrafficOption = Annotated[
    TrafficName, typer.Option("--traffic", help="Source of the numbers; auto uses the best source that exists.")
]
Folder = Annotated[str, typer.Option("--folder", help="Folder of the traffic tables; by default PENSTOCK_TRAFFIC_DIR.")]
Diff = Annotated[
    Path | None, typer.Option("--diff", help="Show the differences to the topology.json of an earlier run.")
]
FailOn = Annotated[
    Level | None, typer.Option("--fail-on", help="Exit with code 1 if a finding has this severity or a worse severity.")
]
Jars = Annotated[
    list[Path] | None, typer.Option("--jars", help="Folder with the jars of GraphFrames; may be repeated.")
]
Shapes = Annotated[
    Shape,
    typer.Option(
        "--output", "-o", help="table for people; the other formats print the document, a picture or a catalogue."
    ),
]


group = Commands(
    (
        Entry("impact", "app.cli.topology_questions:impact", "Show everything upstream and downstream of a vertex."),
        Entry(
            "path",
            "app.cli.topology_questions:path",
            "Show the paths that events can take from one vertex to another, the shortest first.",
        ),
    ),
    invoke_without_command=True,
    no_args_is_help=False,
    subcommand_metavar="[COMMAND] [ARGS]...",
)


@group.callback()
def topology(
    call: typer.Context,
    engine: Engines = EngineChoice.AUTO,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    out: Out = None,
    diff: Diff = None,
    since: Since = _WINDOW,
    until: Until = "",
    traffic: TrafficOption = TrafficName.AUTO,
    folder: Folder = "",
    fail_on: FailOn = None,
    jars: Jars = None,
    memory: Memory = "1g",
    kafka: Kafka = "",
    output: Shapes = Shape.TABLE,
) -> None:
    """Show who sends what to whom, and find faults.

    It finds loops, dead letters that come back, double deliveries, channels without senders or subscribers, and missing
    events. --out writes an HTML report. It works without a running worker.

    \b
    Examples:
      penstock topology
      penstock topology --out report --since 1h
      penstock topology --namespace default -o mermaid
      penstock topology --diff report/topology.json --fail-on warning
      penstock topology --engine graphframes --jars ~/graphframes-jars
      penstock topology impact quickstart
    """
    if call.invoked_subcommand is not None:
        _refuse_options(call)
        return
    graphframes = engine is EngineChoice.GRAPHFRAMES
    need_or_install(ANALYTICS if graphframes else REPORT, "`penstock topology`")
    with interruptible():
        old = read_old(diff)
        where = chosen_namespace(namespace, everywhere, context)
        query = make_query(kafka, since, until, where, folder, traffic)
        if graphframes:
            check_jars(jars or [])
        from analytics.topology.build import build, collector_at_rest

        inputs = read_inputs(query)
        with collector_at_rest():
            facts = facts_of(inputs)
        edges = facts.links_count()
        large = engine is EngineChoice.AUTO and edges > LOCAL_EDGES_MAX
        chosen, why = choose(engine, edges, missing_in(_places(jars or [])) if large else None)
        with _engine(chosen, jars or [], memory) as walking:
            new = build(inputs, walking, facts, [why] if why else [])
        finish(new, old, out, fail_on, output, query)


def _refuse_options(call: typer.Context) -> None:
    """Raises UsageError if there are options before the name of a question, which would be without effect."""
    options = given(call)
    if options:
        option, name = options[0], call.invoked_subcommand
        raise UsageError(
            f"{option} stands before {name}, where it has no effect.",
            f"Write it after {name}. `penstock topology {name} --help` lists the options.",
        )


def _places(jars: list[Path]) -> list[Path]:
    """Returns folders that may contain GraphFrames' jars."""
    return [*jars, *load_settings().spark_jars]


def missing_in(places: list[Path]) -> str | None:
    """Returns why GraphFrames cannot run with the jars of these folders; None: it can."""
    from analytics.topology.engines.graphframes import missing_jars

    return missing_jars(places)


def check_jars(jars: list[Path]) -> None:
    """Raises NoGraphFramesError if its jars are missing: the user chose GraphFrames, so no other engine answers."""
    from analytics.topology.engines.graphframes import NoGraphFramesError

    if why := missing_in(_places(jars)):
        raise NoGraphFramesError(why, "--engine local needs no jars.")


def make_query(kafka: str, since: str, until: str, namespace: str, folder: str, traffic: TrafficName) -> TopologyQuery:
    """Returns what to read, from the options of a run. Raises UsageError."""
    now = time.time()
    settings = load_settings()
    begin = read_time(since, "--since", now)
    end = min(read_time(until, "--until", now), now) if until else now
    if begin >= now:
        raise UsageError(f"--since {since!r} is in the future.", "Write a time in the past.")
    if begin >= end:
        raise UsageError("--since is not before --until.", "Swap them.")
    tier: Tier | None = None if traffic is TrafficName.AUTO else Tier(traffic.value)
    tables = folder or settings.traffic_dir
    return TopologyQuery(kafka_client(kafka), settings.instance, now, begin, end, namespace, tables, tier)


def read_old(path: Path | None) -> Topology | None:
    """Returns the document of `--diff`. Raises PenstockError if the file is not one."""
    return None if path is None else read_document(path, "--diff")


@contextlib.contextmanager
def _engine(name: EngineChoice, jars: list[Path], memory: str) -> Iterator[Engine]:
    if name is EngineChoice.LOCAL:
        from analytics.topology.engines.local import LocalEngine

        yield LocalEngine()
        return

    from analytics.topology.engines.graphframes import GraphFramesEngine

    if sys.stderr.isatty():
        note("Spark is starting ...")
    options = spark_options("penstock topology", jars=_places(jars), driver_memory=memory)
    with spark_session(replace(options, rounds=True)) as spark:
        yield GraphFramesEngine(spark)


def finish(
    new: Topology, old: Topology | None, out: Path | None, fail_on: Level | None, output: Shape, query: TopologyQuery
) -> None:
    """Print and write the document. Ends with 1 if a finding has at least the severity of `fail_on`."""
    difference = None if old is None else compare(old, new)
    if difference is None or output is Shape.HTML:
        show(new, output, query, difference)
    elif output is Shape.JSON:
        print_json(difference.as_dict())
    elif output is Shape.TABLE:
        show_difference(difference)
    else:
        raise UsageError(f"--diff does not support -o {output.value}.", "Use -o table, -o json or -o html.")
    if out is not None:
        write_report(new, out, difference)
        note(f"Wrote the report to {out / PAGE}.")
    if new.partial and (out is not None or output not in (Shape.TABLE, Shape.JSON, Shape.HTML)):
        note(f"{A_PART} --namespace makes it smaller; topology.json says what is left out.")
    if fail_on is not None and bad_enough(new, fail_on):
        raise typer.Exit(1)


def show(document: Topology, output: Shape, query: TopologyQuery, difference: Difference | None = None) -> None:
    """Print to stdout."""
    if output is Shape.TABLE:
        show_topology(document)
        return
    sys.stdout.write(text_of(document, output, str(query.client["bootstrap.servers"]), difference))
    sys.stdout.flush()


def text_of(document: Topology, output: Shape, kafka: str, difference: Difference | None = None) -> str:
    """Returns the document in one of the formats for programs. CSV: the edges. `kafka`: the bootstrap servers that it
    is of. `difference`: to an earlier run, for the page."""
    if output is Shape.HTML:
        from analytics.topology.report import render

        return render(document, difference)
    if output is Shape.OPENLINEAGE:
        return openlineage(document, kafka.partition(",")[0])
    return _TEXTS[output](document)


_TEXTS: Mapping[Shape, Callable[[Topology], str]] = {
    Shape.JSON: lambda document: to_json(document).decode() + "\n",
    Shape.MERMAID: exports.mermaid,
    Shape.DOT: exports.dot,
    Shape.CSV: lambda document: exports.csv_text(document, "edges"),
    Shape.GRAPHML: graphml,
    Shape.ASYNCAPI: asyncapi,
    Shape.BACKSTAGE: backstage,
}


def bad_enough(document: Topology, level: Level) -> bool:
    """Returns whether a finding is of this severity or worse."""
    worst = SEVERITIES[: SEVERITIES.index(Severity(level.value)) + 1]
    return any(finding.severity in worst for finding in document.findings)
