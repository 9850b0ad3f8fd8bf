"""GraphML, for programs that draw and analyse graphs, such as yEd, Gephi and networkx. It has all fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape

from analytics.topology.model.document import A_PART, Edge, Topology, Vertex

#: Everything that XML 1.0 does not allow.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TYPES = {
    "double": ("rate", "bytes_rate", "latency_p50_s", "latency_p99_s"),
    "long": ("lag", "island", "events", "failures"),
}
_TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names}
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">',
)
_PARTIAL = '<key id="graph-partial" for="graph" attr.name="partial" attr.type="string"/>'


def graphml(topology: Topology) -> str:
    """Writes one directed graph. Vertices are `n0`, `n1`, ...; their ids are data: XML allows few letters in an id."""
    return (
        "\n".join([*_HEAD, *_keys("node", Vertex), *_keys("edge", Edge), _PARTIAL, *_graph(topology), "</graphml>"])
        + "\n"
    )


def _keys(of: str, kind: type[Vertex] | type[Edge]) -> Iterator[str]:
    for name in _fields(kind):
        yield f'<key id="{of}-{name}" for="{of}" attr.name="{name}" attr.type="{_TYPE_OF.get(name, "string")}"/>'


def _fields(kind: type[Vertex] | type[Edge]) -> Iterable[str]:
    """Leaves out the ends of an edge, which are attributes."""
    return (name for name in kind.__dataclass_fields__ if name not in ("source", "target"))


def _graph(topology: Topology) -> Iterator[str]:
    yield '<graph id="topology" edgedefault="directed">'
    if topology.partial:
        yield f'<data key="graph-partial">{A_PART}</data>'
    places = {vertex.id: f"n{place}" for place, vertex in enumerate(topology.vertices)}
    for vertex in topology.vertices:
        yield f'<node id="{places[vertex.id]}">{_data("node", vertex)}</node>'
    for place, edge in enumerate(topology.edges):
        ends = f'source="{places[edge.source]}" target="{places[edge.target]}"'
        yield f'<edge id="e{place}" {ends}>{_data("edge", edge)}</edge>'
    yield "</graph>"


def _data(of: str, item: Vertex | Edge) -> str:
    values = ((name, _text(getattr(item, name))) for name in _fields(type(item)))
    return "".join(f'<data key="{of}-{name}">{text}</data>' for name, text in values if text)


def _text(value: object) -> str:
    """Returns "" for what is not known, or empty."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False) if value else ""
    elif isinstance(value, tuple):
        value = " ".join(value)
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", str(value)))
