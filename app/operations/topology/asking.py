"""Which vertex of a document a question is about, and documents in files. Errors name what there is instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analytics.topology.model.document import Flow, Topology, Vertex, from_json
from analytics.topology.questions import short_name, title, vertices_named
from app.operations.unknown_name import known_names, meant
from knative.errors import PenstockError, UsageError


def read_document(path: Path, option: str) -> Topology:
    """Returns the document in a file. Raises PenstockError if there is none in it; `option` is what named the file."""
    try:
        return from_json(path.read_bytes())
    except OSError as problem:
        raise UsageError(
            f"{option} {path} cannot be read: {problem.strerror or problem}.",
            "Name the topology.json of an earlier run.",
        ) from problem


def choose_vertex(topology: Topology, wish: str) -> Vertex:
    """Returns the vertex of this id, NAMESPACE/NAME or name. Raises PenstockError for none, UsageError for several."""
    named = vertices_named(topology, wish)
    if len(named) == 1:
        return named[0]
    if named:
        titles = [title(vertex) for vertex in named]
        listed = " or ".join(titles[:10]) if len(titles) <= 10 else f"one of {', '.join(titles[:10])}, ..."
        raise UsageError(f"{len(named)} vertices have the name {wish}.", f"Write {listed}.")
    names = [title(vertex) for vertex in topology.vertices]
    similar = dict.fromkeys(
        (*(vertex.label for vertex in topology.vertices), *map(short_name, topology.vertices), *names)
    )
    if topology.partial:
        place, all_of_them = (
            "the document, which contains only a part of the map",
            "Remove --from to search the whole map.",
        )
    else:
        place, all_of_them = "the topology", "`penstock topology -o csv` lists them all."
    hint = meant(wish, list(similar), all_of_them)
    raise PenstockError(f"There is no vertex {wish} in {place}; {known_names(names)}", hint)


def choose_ends(topology: Topology, start: str, end: str) -> tuple[Topology, str, str]:
    """Returns the map to search for paths, and the ids of their ends. Raises as `choose_vertex`.

    The name of a subscription, without its kind, means its subscriber at the end of a path: the map has no other
    delivery to that. From a subscription to itself it stays, because this asks for loops.
    """
    source, target = choose_vertex(topology, start), choose_vertex(topology, end)
    has_name = end in (target.label, f"{target.namespace}/{target.name}", target.name)
    of_target = (edge for edge in topology.edges if edge.kind is Flow.DELIVERS and edge.source == target.id)
    delivery = next(of_target, None)  # a map that is listed in part may lack it
    if delivery is None or not has_name or source == target:
        return topology, source.id, target.id
    edges = tuple(edge for edge in topology.edges if edge.target != delivery.target or edge == delivery)
    return replace(topology, edges=edges), source.id, delivery.target
