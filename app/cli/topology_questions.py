"""`penstock topology impact` and `penstock topology path`: questions about the current map, or about the map in a
file."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from analytics.topology.model.document import Topology
from analytics.topology.questions import impact as impact_of
from analytics.topology.questions import paths as paths_of
from app.cli.options.extras import need_or_install
from app.cli.options.kafka import Kafka
from app.cli.output.format import Format, Output, print_json
from app.cli.output.topology_questions import show_impact, show_paths
from app.cli.topology import Folder, Since, TrafficName, TrafficOption, Until, make_query
from app.operations.topology.asking import choose_ends, choose_vertex, read_document
from app.operations.topology.reading import read_inputs
from app.settings.extras import REPORT

From = Annotated[
    Path | None, typer.Option("--from", help="Read the topology.json of an earlier run, instead of Kafka.")
]
_NAME = "Id, NAMESPACE/NAME, KIND/NAMESPACE/NAME or name of a channel, subscription, source, event type ..."


def impact(
    vertex: Annotated[str, typer.Argument(metavar="VERTEX", help=_NAME)],
    saved: From = None,
    since: Since = "10m",
    until: Until = "",
    traffic: TrafficOption = TrafficName.AUTO,
    folder: Folder = "",
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Show everything upstream and downstream of a vertex.

    It says what VERTEX depends on, and what is affected if VERTEX stops: each vertex with the fewest hops to it, the
    kind of the last connection, health and rates.

    \b
    Examples:
      penstock topology impact quickstart
      penstock topology impact subscription/default/good --since 1h -o json
      penstock topology impact default/quickstart --from report/topology.json
    """
    topology = _document(saved, since, until, traffic, folder, kafka)
    answer = impact_of(topology, choose_vertex(topology, vertex))
    if output is Format.JSON:
        print_json(asdict(answer))
    else:
        show_impact(answer)


def path(
    start: Annotated[str, typer.Argument(metavar="FROM", help=_NAME)],
    end: Annotated[
        str, typer.Argument(metavar="TO", help="Like FROM; the name of a subscription means its subscriber.")
    ],
    saved: From = None,
    since: Since = "10m",
    until: Until = "",
    traffic: TrafficOption = TrafficName.AUTO,
    folder: Folder = "",
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Show the paths that events can take from one vertex to another, the shortest first.

    It shows at most 20 paths, each with the connection that takes the most time, and with p50 and p99 summed along it.
    A sum of p99s is an upper estimate. The paths from a vertex to itself are the loops that it is on.

    \b
    Examples:
      penstock topology path quickstart good
      penstock topology path channel/default/quickstart subscription/default/picky -o json
      penstock topology path quickstart quickstart --from report/topology.json
    """
    topology = _document(saved, since, until, traffic, folder, kafka)
    answer = paths_of(*choose_ends(topology, start, end))
    if output is Format.JSON:
        print_json(asdict(answer))
    else:
        show_paths(topology, answer)


def _document(saved: Path | None, since: str, until: str, traffic: TrafficName, folder: str, kafka: str) -> Topology:
    """Returns the document in a file, or that of the current map."""
    if saved is not None:
        return read_document(saved, "--from")
    need_or_install(REPORT, "`penstock topology`")
    from analytics.topology.build import build
    from analytics.topology.engines.local import LocalEngine

    inputs = read_inputs(make_query(kafka, since, until, "", folder, traffic))
    return build(inputs, LocalEngine(), whole=sys.maxsize)  # an answer is about the whole map, however large
