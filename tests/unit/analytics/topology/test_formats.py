"""The exports against the schemas of their formats, with names that try to break out, and what they say."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import referencing
import xmlschema
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.formats.asyncapi import asyncapi
from analytics.topology.formats.backstage import backstage
from analytics.topology.formats.graphml import graphml
from analytics.topology.formats.openlineage import openlineage
from analytics.topology.model.document import Topology
from tests.support import topologies
from tests.support.planted_faults import World
from tests.support.profiles import examples
from tests.support.topologies import small

SCHEMAS = Path(__file__).parents[3] / "data" / "schemas"


def namesakes() -> Topology:
    """A channel and a broker of one name, each with a consumer of one name and a DLQ topic."""
    world = World().channel("orders").channel("orders", "Broker")
    channel, broker = world.channels
    world.subscription("audit", "orders", "http://audit")
    world.subscription("audit", "orders", "http://audit", kind="Trigger")
    world.subscriptions[1] = replace(world.subscriptions[1], channel_uid=broker.uid, dlq_topic=broker.dlq_topic)
    assert channel.dlq_topic == world.subscriptions[0].dlq_topic
    return build(world.inputs(), LocalEngine())


SAMPLES: dict[str, Callable[[], Topology]] = {
    "empty": topologies.empty,
    "quickstart": topologies.quickstart,
    "shop": topologies.shop,
    "small": small,
    "hostile": topologies.hostile,
    "namesakes": namesakes,
    "large": lambda: topologies.large(600),
    "partial": lambda: replace(small(), partial=True),
}
BACKSTAGE = {
    "Component": "backstage-component.v1alpha1",
    "Resource": "backstage-resource.v1alpha1",
    "System": "backstage-system.v1alpha1",
}
_NS = "{http://graphml.graphdrawing.org/xmlns}"


def read(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


def validator(name: str, *others: str) -> Any:
    """Of a schema, which may refer to the others."""
    schemas = [read(other) for other in others]
    resources = [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas]
    kind = jsonschema.validators.validator_for(read(name))
    return kind(
        read(name), registry=referencing.Registry().with_resources(resources), format_checker=kind.FORMAT_CHECKER
    )


@pytest.fixture(scope="module")
def asyncapi_schema() -> Any:
    return validator("asyncapi-3.0.0")


@pytest.fixture(scope="module")
def openlineage_schema() -> Any:
    return validator("openlineage-2-0-2")


@pytest.fixture(scope="module")
def backstage_schemas() -> dict[str, Any]:
    shared = ("backstage-entity", "backstage-entityenvelope", "backstage-entitymeta", "backstage-common")
    return {kind: validator(name, *shared) for kind, name in BACKSTAGE.items()}


@pytest.fixture(scope="module")
def graphml_schema() -> xmlschema.XMLSchema10:
    return xmlschema.XMLSchema10(SCHEMAS / "graphml.xsd", allow="local")


def test_schemas_are_those_of_their_projects() -> None:
    lock = json.loads((SCHEMAS / "lock.json").read_text("utf-8"))
    files = {path.name for path in SCHEMAS.iterdir()} - {"lock.json"}
    assert {name: hashlib.sha256((SCHEMAS / name).read_bytes()).hexdigest() for name in files} == {
        name: sha256 for source in lock for name, sha256 in source["files"].items()
    }
    assert all(source["licence"] and source["version"] for source in lock)


@pytest.fixture(params=list(SAMPLES))
def topology(request: pytest.FixtureRequest) -> Topology:
    return SAMPLES[request.param]()


def test_asyncapi_is_valid_and_its_references_lead_somewhere(topology: Topology, asyncapi_schema: Any) -> None:
    document = json.loads(asyncapi(topology))

    asyncapi_schema.validate(document)
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', asyncapi(topology)):
        place = document
        for key in reference.split("/"):
            place = place[key]
    assert len(document["channels"]) == sum(
        vertex.kind.value in ("channel", "broker", "dlq") for vertex in topology.vertices
    )
    subscriptions = [edge.target for edge in topology.edges if edge.kind.value == "subscribes"]
    assert sum(operation["action"] == "send" for operation in document["operations"].values()) == len(subscriptions)


def test_asyncapi_says_who_gets_what_and_where_replies_go() -> None:
    document = json.loads(asyncapi(small()))

    assert document["operations"]["subscription.shop.billing"] == {
        "action": "send",
        "channel": {"$ref": "#/channels/channel.shop.orders"},
        "title": "shop/billing",
        "reply": {"channel": {"$ref": "#/channels/channel.shop.bills"}},
        "x-penstock-id": "subscription:shop/billing",
        "x-penstock-subscriber": "http://billing.shop",
        "x-penstock-reply": "shop/bills",
        "x-penstock-dead-letters": "http://graveyard.shop/dead",
    }
    channel = document["channels"]["channel.shop.orders"]
    assert channel["address"] == channel["bindings"]["kafka"]["topic"] == "knative-messaging-kafka.shop.orders"


def test_openlineage_is_valid(topology: Topology, openlineage_schema: Any) -> None:
    facet_schema = validator("openlineage-job-type-2-0-4", "openlineage-2-0-2")
    events = [json.loads(line) for line in openlineage(topology, "kafka:9092").splitlines()]

    for event in events:
        openlineage_schema.validate(event)
        if "job" in event:
            facet_schema.validate(event["job"]["facets"])
    assert len(events) == len(topology.vertices)


def test_openlineage_names_topics_as_other_producers_do() -> None:
    events = [json.loads(line) for line in openlineage(small(), "kafka:9092").splitlines()]

    (billing,) = [event for event in events if event.get("job", {}).get("name") == "subscription:shop/billing"]
    assert billing["inputs"] == [{"namespace": "kafka://kafka:9092", "name": "knative-messaging-kafka.shop.orders"}]
    assert billing["outputs"] == [
        {"namespace": "http://graveyard.shop", "name": "/dead"},
        {"namespace": "http://billing.shop", "name": "/"},
        {"namespace": "kafka://kafka:9092", "name": "knative-messaging-kafka.shop.bills"},
    ]


def test_backstage_is_valid_and_every_reference_is_an_entity(
    topology: Topology, backstage_schemas: dict[str, Any]
) -> None:
    entities = list(yaml.safe_load_all(backstage(topology)))

    refs = []
    for entity in entities:
        backstage_schemas[entity["kind"]].validate(entity)
        metadata = entity["metadata"]
        # What Backstage checks beyond its schemas: KubernetesValidatorFunctions of @backstage/catalog-model.
        assert re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", metadata["name"])
        assert len(metadata["name"]) <= 63
        assert re.fullmatch(r"[a-z0-9]+(?:-+[a-z0-9]+)*", metadata["namespace"])
        refs.append(f"{entity['kind']}:{metadata['namespace']}/{metadata['name']}".lower())
    assert len(refs) == len(set(refs)) == 1 + len(topology.vertices)
    depends = {ref for entity in entities for ref in entity["spec"].get("dependsOn", ())}
    assert depends <= set(refs)
    assert {f"system:{entity['spec']['system']}" for entity in entities if "system" in entity["spec"]} <= set(refs)


def test_backstage_has_an_entity_for_each_vertex_that_depends_on_what_it_gets_events_from() -> None:
    entities = {
        entity["metadata"].get("annotations", {}).get("penstock.dev/id"): entity
        for entity in yaml.safe_load_all(backstage(small()))
    }

    assert entities["uri:http://billing.shop"]["kind"] == "Component"
    assert entities["uri:http://billing.shop"]["spec"]["dependsOn"] == [
        "resource:shop/subscription-billing",
        "resource:shop/trigger-audit",
    ]
    assert entities["channel:shop/bills"]["metadata"]["name"] == "channel-bills"
    assert entities["channel:shop/bills"]["spec"] == {
        "type": "channel",
        "owner": "unknown",
        "system": "default/penstock",
        "dependsOn": ["resource:shop/subscription-billing"],
    }


def test_graphml_is_valid_and_has_every_field(topology: Topology, graphml_schema: xmlschema.XMLSchema10) -> None:
    text = graphml(topology)

    graphml_schema.validate(text)
    root = ElementTree.fromstring(text)
    nodes = {node.attrib["id"]: fields(node, "node-") for node in root.iter(f"{_NS}node")}
    edges = [(edge.attrib, fields(edge, "edge-")) for edge in root.iter(f"{_NS}edge")]
    assert len(nodes) == len(topology.vertices)
    for edge, (ends, data) in zip(topology.edges, edges, strict=True):
        assert (data["kind"], data.get("rate")) == (edge.kind.value, None if edge.rate is None else str(edge.rate))
        assert nodes[ends["target"]]["kind"]
    names = {vertex.id: vertex.name for vertex in topology.vertices if vertex.name.isprintable()}
    assert {data["id"]: data["name"] for data in nodes.values() if data["id"] in names} == names


def fields(item: ElementTree.Element, prefix: str) -> dict[str, str]:
    return {data.attrib["key"].removeprefix(prefix): data.text or "" for data in item.iter(f"{_NS}data")}


@examples(60)
@given(text=st.text(st.characters(), min_size=1, max_size=60))
@example(text="]]></data></node>&")
@example(text="\x00\x1b[2J\u202e\u2028\ud800\ufffe")
@example(text="'\n---\nkind: System")
@example(text="#/channels/x~1y")
@example(text="-")
@example(text="A")
@example(text="x" * 10_240)
def test_text_of_others_changes_no_structure(
    text: str, graphml_schema: xmlschema.XMLSchema10, backstage_schemas: dict[str, Any]
) -> None:
    evil, benign = topologies.hostile([text]), topologies.hostile(["benign"])

    entities = list(yaml.safe_load_all(backstage(evil)))
    for entity in entities:
        backstage_schemas[entity["kind"]].validate(entity)
    assert [entity["kind"] for entity in entities] == [
        entity["kind"] for entity in yaml.safe_load_all(backstage(benign))
    ]
    graphml_schema.validate(graphml(evil))
    assert graphml(evil).count("<data ") == graphml(benign).count("<data ")
    assert list(json.loads(asyncapi(evil))["channels"]) == list(json.loads(asyncapi(benign))["channels"])
    assert len(openlineage(evil, "k:1").splitlines()) == len(openlineage(benign, "k:1").splitlines())


def test_catalogues_have_no_figures_so_that_equal_resources_give_equal_files() -> None:
    quiet = replace(
        small(),
        generated_at=0.0,
        vertices=tuple(
            replace(vertex, rate=None, lag=None, health=small().vertices[0].health) for vertex in small().vertices
        ),
        edges=tuple(replace(edge, rate=None, events=None) for edge in small().edges),
    )
    assert asyncapi(quiet) == asyncapi(small())
    assert backstage(quiet) == backstage(small())
