"""Entities of a Backstage catalog, as YAML documents: a System for the installation, and one entity for each vertex.

channel, broker, subscription, trigger, DLQ topic   -> Resource, of the System
source, subscriber, other HTTP destination          -> Component
edge                                                -> its end depends on its start
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import yaml

from analytics.topology.model.document import A_PART, Topology, Vertex
from knative.shown import visible

_OWNER = "unknown"  # Backstage requires one, and nothing here says who it is
_OUTSIDE = "default"  # namespace of entities without one


def backstage(topology: Topology) -> str:
    """Returns YAML documents, one entity each."""
    return yaml.safe_dump_all(_entities(topology), sort_keys=False, allow_unicode=True, width=120)


def _entities(topology: Topology) -> Iterator[dict[str, Any]]:
    system = _name(topology.instance)
    yield {
        "apiVersion": "backstage.io/v1alpha1",
        "kind": "System",
        "metadata": {
            "name": system,
            "namespace": _OUTSIDE,
            "title": visible(topology.instance),
            **({"description": A_PART} if topology.partial else {}),
        },
        "spec": {"owner": _OWNER},
    }
    of = {vertex.id: vertex for vertex in topology.vertices}
    starts = defaultdict(set)
    for edge in topology.edges:
        if edge.source != edge.target:
            starts[edge.target].add(_ref(of[edge.source]))
    for vertex in topology.vertices:
        yield _entity(vertex, f"{_OUTSIDE}/{system}", sorted(starts[vertex.id]))


def _entity(vertex: Vertex, system: str, starts: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": vertex.kind.value, "owner": _OWNER}
    if vertex.namespace:
        spec["system"] = system
    else:
        spec["lifecycle"] = "production"
    if starts:
        spec["dependsOn"] = starts
    return {
        "apiVersion": "backstage.io/v1alpha1",
        "kind": _kind(vertex),
        "metadata": {
            "name": _entity_name(vertex),
            "namespace": vertex.namespace or _OUTSIDE,
            "title": visible(vertex.label),
            "annotations": {"penstock.dev/id": visible(vertex.id)},
        },
        "spec": spec,
    }


def _kind(vertex: Vertex) -> str:
    return "Resource" if vertex.namespace else "Component"


def _ref(vertex: Vertex) -> str:
    return f"{_kind(vertex).lower()}:{vertex.namespace or _OUTSIDE}/{_entity_name(vertex)}"


def _entity_name(vertex: Vertex) -> str:
    """Returns a name made from the id: the DLQ topics of a channel and of a broker may have one name."""
    return _name(f"{vertex.kind}-{vertex.id.partition('/')[2] if vertex.namespace else vertex.name}")


def _name(text: str, chars_max: int = 63) -> str:
    """Returns a name that Backstage takes. Unless it is the text itself, a checksum keeps it apart from the names of
    similar texts; Backstage does not tell upper and lower case apart."""
    slug = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
    if slug == text and len(text) <= chars_max:
        return text
    checksum = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug[: chars_max - len(checksum) - 1].rstrip('-.')}-{checksum}".lstrip("-")
