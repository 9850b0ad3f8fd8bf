"""OpenLineage, as JSON Lines: one event of static lineage a line, as `POST /api/v1/lineage` takes them.

source, subscription, trigger                  -> a job: JobEvent with its inputs and outputs
channel, broker, DLQ topic, HTTP destination   -> a dataset: its topic on this Kafka, or its URL
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from analytics.topology.model.document import Kind, Topology, Vertex, without_types
from knative.shown import visible
from knative.timefmt import in_milliseconds

_PRODUCER = "https://penstock.dev"
_SPEC = "https://openlineage.io/spec"
_JOBS = (Kind.SOURCE, Kind.SUBSCRIPTION, Kind.TRIGGER)


def openlineage(topology: Topology, kafka: str) -> str:
    """Returns JSON Lines. `kafka`: HOST:PORT of the first bootstrap server, which names the datasets as other producers
    do."""
    return "".join(f"{orjson.dumps(event).decode()}\n" for event in _events(without_types(topology), kafka))


def _events(topology: Topology, kafka: str) -> Iterator[dict[str, Any]]:
    vertices = {vertex.id: vertex for vertex in topology.vertices}
    inputs, outputs = defaultdict(list), defaultdict(list)
    for edge in topology.edges:
        inputs[edge.target].append(vertices[edge.source])
        outputs[edge.source].append(vertices[edge.target])
    head = {"eventTime": in_milliseconds(topology.generated_at), "producer": _PRODUCER}
    for vertex in topology.vertices:
        if vertex.kind in _JOBS:
            yield {
                **head,
                "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/JobEvent",
                "job": {
                    "namespace": visible(topology.instance),
                    "name": visible(vertex.id),
                    "facets": {"jobType": _job_type(vertex)},
                },
                "inputs": _datasets(inputs[vertex.id], kafka),
                "outputs": _datasets(outputs[vertex.id], kafka),
            }
        else:
            yield {
                **head,
                "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/DatasetEvent",
                "dataset": _dataset(vertex, kafka),
            }


def _job_type(vertex: Vertex) -> dict[str, str]:
    return {
        "_producer": _PRODUCER,
        "_schemaURL": f"{_SPEC}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
        "processingType": "STREAMING",
        "integration": "PENSTOCK",
        "jobType": vertex.kind.upper(),
    }


def _datasets(vertices: Iterable[Vertex], kafka: str) -> list[dict[str, str]]:
    """Returns each once: a subscriber and a dead letter sink may be the same URL."""
    return [_dataset(vertex, kafka) for vertex in {vertex.id: vertex for vertex in vertices}.values()]


def _dataset(vertex: Vertex, kafka: str) -> dict[str, str]:
    """Names a dataset as OpenLineage names those of Kafka. An HTTP destination: scheme and host, then the path."""
    if vertex.namespace:
        return {"namespace": f"kafka://{kafka}", "name": str(vertex.detail.get("topic") or visible(vertex.label))}
    scheme, rest = vertex.name.split("://", 1) if "://" in vertex.name else ("http", vertex.name)
    host, _, path = rest.partition("/")
    return {"namespace": visible(f"{scheme}://{host}"), "name": visible(f"/{path}")}
