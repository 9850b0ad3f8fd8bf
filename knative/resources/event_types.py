"""EventTypes: what somebody says will come to a channel or Broker. Knative's core has their CRD; nothing is served."""

from __future__ import annotations

from collections.abc import Mapping

from knative.resources.fields_reader import read_fields
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import Anything, Items, Object, Text
from knative.resources.values import EventType

EVENT_TYPE_VERSIONS = ("v1beta2", "v1beta3", "v1beta1")
#: What an EventType may name -> the kind that is. A Channel of Knative has a KafkaChannel of its name behind it.
_KINDS = {"Broker": "Broker", "KafkaChannel": "KafkaChannel", "Channel": "KafkaChannel"}

_NAME = Text()
_ATTRIBUTE = Object(fields={"name": Text(required=True), "value": _NAME, "required": Anything()})
_SPEC = Object(
    required=True,
    fields={
        "type": _NAME,
        "attributes": Items(of=_ATTRIBUTE, most=100, key="name"),  # of v1beta3, in which the type is one of them
        "reference": Object(
            fields={
                "apiVersion": _NAME,
                "kind": Text(required=True),
                "namespace": _NAME,
                "name": Text(required=True),
            }
        ),
        "broker": _NAME,
        **dict.fromkeys(("source", "schema", "schemaData", "description", "variables"), Anything()),
    },
)


def read_event_type(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> EventType:
    """Returns an EventType of any channel or Broker, which may come later."""
    spec_reader = reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), [])
    spec = read_fields(spec_reader, _SPEC)
    read_fields(annotations, Object(fields={}), "penstock.dev/")
    attributes = {attribute["name"]: attribute["value"] for attribute in spec["attributes"]}
    type_ = spec["type"] or attributes.get("type", "")
    if not type_:
        spec_reader.problem("type", "is missing", "write the type of the events")
    field = "broker" if spec["broker"] and not spec["reference"] else "reference"
    return EventType(namespace, name, type_, channel_of(spec, namespace), f"spec.{field}")


def channel_of(spec: Mapping[str, object], namespace: str) -> tuple[str, str, str] | None:
    """Returns the channel or Broker that the spec of an EventType of this namespace names: see `EventType.channel`."""
    reference = spec.get("reference")
    if not isinstance(reference, Mapping):
        return ("Broker", namespace, str(spec["broker"])) if spec.get("broker") else None
    kind, name = _KINDS.get(str(reference.get("kind"))), str(reference.get("name") or "")
    return (kind, str(reference.get("namespace") or namespace), name) if kind and name else None
