"""The kinds that people write: from plain mappings to frozen values, with every problem.

`parse` takes an object from a YAML or JSON parser or the API server, and returns a value or raises every problem, each
with its field and a hint. A field that this version would ignore silently is a problem too.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping

from knative.resources.brokers import (
    BROKER,
    BROKER_CLASS,
    DEPENDENCY,
    EXTERNAL_TOPIC,
    TRIGGER,
    read_broker,
    read_config_map,
    read_trigger,
)
from knative.resources.channels import KAFKA_CHANNEL, SUBSCRIPTION, read_channel, read_subscription
from knative.resources.destination import LABEL_PATTERN, NAME_CHARS_MAX, NAME_HINT, NAME_PATTERN, NO_NAME
from knative.resources.event_types import EVENT_TYPE_VERSIONS, read_event_type
from knative.resources.fields import CONCURRENCY, EXHAUSTED, HOSTS, KEEP_TOPIC, ORDER, START
from knative.resources.object_reader import FieldProblem, ObjectReader
from knative.resources.reset_offsets import RESET_OFFSET, read_reset_offset
from knative.resources.schema import Kind
from knative.resources.values import EVENTING, Resource
from knative.urls import quoted

#: Annotations that count as part of the spec. A change of one is a new generation of a resource from a file. In a
#: cluster, whose generations do not count annotations, the hash shows that it has changed.
SPEC_ANNOTATIONS = frozenset(
    (ORDER, CONCURRENCY, START, EXHAUSTED, HOSTS, KEEP_TOPIC, BROKER_CLASS, EXTERNAL_TOPIC, DEPENDENCY)
)

#: Fields of `metadata` that are ignored. The API server and tools set most of them.
METADATA = (
    *("labels", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "generateName"),
    *("deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields", "selfLink"),
)

_LABEL = re.compile(LABEL_PATTERN, re.ASCII)
_SUBDOMAIN = re.compile(NAME_PATTERN, re.ASCII)

#: The kinds that the API server stores for us.
OURS: tuple[Kind, ...] = (KAFKA_CHANNEL, SUBSCRIPTION, BROKER, TRIGGER, RESET_OFFSET)


class Invalid(ValueError):
    """An object that is not valid for its kind. `problems` has every reason."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def parse(value: Mapping[str, object]) -> Resource | None:
    """Returns an object of a kind that may be in a directory, with its defaults; None for any other kind.

    Raises Invalid with every problem found. `spec` may be absent if all its fields have defaults.
    """
    problems: list[FieldProblem] = []
    reader = ObjectReader(value, (), problems)
    api_version, kind = reader.text("apiVersion", required=True), reader.text("kind", required=True)
    if problems:
        raise Invalid(problems)
    group, _, version = api_version.rpartition("/")
    if (group, kind) not in KINDS:
        return None
    versions, read = KINDS[group, kind]
    if version not in versions:
        reader.problem(
            "apiVersion",
            f"{quoted(api_version)} is not a supported version",
            f"write {API_VERSIONS[kind]}",
        )
    namespace, name, annotations = _metadata(reader)
    resource = read(reader, namespace, name, annotations)
    annotations.check_texts()
    reader.read("status")
    reader.finish()
    if problems:
        raise Invalid(problems)
    return resource


def meant(kind: object) -> str | None:
    """Returns what to write instead of a kind that looks like a misspelt kind of ours; None if it does not."""
    ours = {name.lower(): name for name in API_VERSIONS}
    close = difflib.get_close_matches(str(kind).lower(), ours, n=1, cutoff=0.7)
    if not close:
        return None
    name = ours[close[0]]
    return f"apiVersion: {API_VERSIONS[name]} and kind: {name}"


def spec_hash(value: Mapping[str, object]) -> str:
    """Returns a short digest of an object's spec and of the annotations that count as part of it."""
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    ours = {key: annotations[key] for key in annotations if key in SPEC_ANNOTATIONS} if annotations else {}
    asked = json.dumps([value.get("spec") or {}, ours], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def _metadata(reader: ObjectReader) -> tuple[str, str, ObjectReader]:
    """Returns (namespace, name, annotations). Other fields are ignored, but unknown ones (`namespac`) are problems."""
    metadata = reader.mapping("metadata", required=True)
    if metadata is None:
        return "default", "", ObjectReader({}, (), [])
    name = metadata.text("name", required=True)
    if name and (len(name) > NAME_CHARS_MAX or not _SUBDOMAIN.fullmatch(name)):
        metadata.problem("name", f"{quoted(name)} {NO_NAME}", NAME_HINT)
    namespace = metadata.text("namespace", "default")
    if not _LABEL.fullmatch(namespace):
        metadata.problem(
            "namespace", f"{quoted(namespace)} is not a valid name", "use lower-case letters, digits and '-'"
        )
    annotations = metadata.mapping("annotations")
    labels = metadata.mapping("labels")
    if labels is not None:
        labels.check_texts()
    for field_name in METADATA:
        metadata.read(field_name)
    metadata.finish()
    return namespace, name, annotations or ObjectReader({}, ("metadata", "annotations"), reader.problems)


_Read = Callable[[ObjectReader, str, str, ObjectReader], Resource]

#: (API group, kind) -> (served versions, the preferred one first; reader of the object). What may be in a directory.
KINDS: dict[tuple[str, str], tuple[tuple[str, ...], _Read]] = {
    (KAFKA_CHANNEL.group, KAFKA_CHANNEL.name): (KAFKA_CHANNEL.versions, read_channel),
    (SUBSCRIPTION.group, SUBSCRIPTION.name): (SUBSCRIPTION.versions, read_subscription),
    (BROKER.group, BROKER.name): (BROKER.versions, read_broker),
    (TRIGGER.group, TRIGGER.name): (TRIGGER.versions, read_trigger),
    (RESET_OFFSET.group, RESET_OFFSET.name): (RESET_OFFSET.versions, read_reset_offset),
    ("", "ConfigMap"): (("v1",), read_config_map),
    (EVENTING, "EventType"): (EVENT_TYPE_VERSIONS, read_event_type),
}

#: Kind -> the apiVersion that is preferred.
API_VERSIONS = {
    kind: f"{group}/{versions[0]}" if group else versions[0] for (group, kind), (versions, _) in KINDS.items()
}
