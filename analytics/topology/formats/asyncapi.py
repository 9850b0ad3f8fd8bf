"""AsyncAPI 3.0, as JSON. The application that it describes is the installation: it receives events into each channel,
and sends those of a channel to each subscriber. The reply of a subscriber is the operation's reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from analytics.topology.model.document import A_PART, Edge, Flow, Kind, Topology, Vertex
from knative.shown import visible

_CHANNELS = (Kind.CHANNEL, Kind.BROKER, Kind.DLQ)
_CLOUD_EVENT = {
    "name": "CloudEvent",
    "title": "An event in the structured mode of CloudEvents 1.0",
    "contentType": "application/cloudevents+json",
    "payload": {
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "properties": {name: {"type": "string", "minLength": 1} for name in ("specversion", "id", "source", "type")},
    },
}


def asyncapi(topology: Topology) -> str:
    """Returns one JSON object."""
    vertices = {vertex.id: vertex for vertex in topology.vertices}
    channels = [vertex for vertex in topology.vertices if vertex.kind in _CHANNELS]
    receiving = {
        f"receive.{_key(vertex)}": {
            "action": "receive",
            "channel": _ref(vertex),
            "title": f"Events into {vertex.label}",
        }
        for vertex in channels
        if vertex.kind is not Kind.DLQ
    }
    leaving: dict[str, dict[Flow, Edge]] = {}
    for edge in topology.edges:
        leaving.setdefault(edge.source, {}).setdefault(edge.kind, edge)
    sending = {
        _key(vertices[edge.target]): _operation(vertices, edge, leaving.get(edge.target, {}))
        for edge in topology.edges
        if edge.kind is Flow.SUBSCRIBES
    }
    part = f" {A_PART}" if topology.partial else ""
    return (
        orjson.dumps(
            {
                "asyncapi": "3.0.0",
                "info": {
                    "title": f"Events of {visible(topology.instance)}",
                    "version": "1.0.0",
                    "description": f"Channels and brokers, with who gets their events. From `penstock topology`.{part}",
                },
                "defaultContentType": "application/cloudevents+json",
                "channels": {_key(vertex): _channel(vertex) for vertex in channels},
                "operations": {**receiving, **sending},
                "components": {"messages": {"cloudevent": _CLOUD_EVENT}},
            },
            option=orjson.OPT_INDENT_2,
        ).decode()
        + "\n"
    )


def _key(vertex: Vertex) -> str:
    """Returns `channel.default.orders`, which needs no escaping in a reference. Namespaces have no dots, and names have
    no `_`, so no two vertices have the same."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", vertex.id.replace(":", ".", 1).replace("/", ".", 1))


def _ref(vertex: Vertex) -> dict[str, str]:
    return {"$ref": f"#/channels/{_key(vertex)}"}


def _channel(vertex: Vertex) -> dict[str, Any]:
    topic, partitions = vertex.detail.get("topic"), vertex.detail.get("partitions")
    kafka = {"topic": topic, "partitions": partitions, "bindingVersion": "0.5.0"}
    return {
        "address": topic,
        "title": visible(vertex.label),
        "messages": {"cloudevent": {"$ref": "#/components/messages/cloudevent"}},
        "bindings": {"kafka": {name: value for name, value in kafka.items() if value is not None}},
        "x-penstock-id": visible(vertex.id),
    }


def _operation(vertices: Mapping[str, Vertex], edge: Edge, leaving: Mapping[Flow, Edge]) -> dict[str, Any]:
    """Describes a subscription or trigger; `leaving`: its edges, one of each kind."""
    ends = {flow: vertices[other.target] for flow, other in leaving.items()}
    operation: dict[str, Any] = {
        "action": "send",
        "channel": _ref(vertices[edge.source]),
        "title": visible(vertices[edge.target].label),
        "x-penstock-id": visible(edge.target),
    }
    if Flow.REPLIES in ends and ends[Flow.REPLIES].kind in _CHANNELS:
        operation["reply"] = {"channel": _ref(ends[Flow.REPLIES])}
    for name, flow in (("subscriber", Flow.DELIVERS), ("reply", Flow.REPLIES), ("dead-letters", Flow.DEAD_LETTERS)):
        if flow in ends:
            operation[f"x-penstock-{name}"] = visible(ends[flow].label)
    return operation
