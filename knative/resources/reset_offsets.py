"""ResetOffsets: their shape, and their values."""

from __future__ import annotations

from knative.resources.destination import OBJECT_NAME, namespace_text
from knative.resources.fields import START_ANNOTATION, start_of, time_complaint
from knative.resources.fields_reader import read_fields
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import AGE, READY, REASON, Column, Integer, Items, Kind, Object, Rule, Text
from knative.resources.statuses import CONDITIONS
from knative.resources.values import EVENTING, MESSAGING, ResetOffset, Start

KAFKA_EVENTING = "kafka.eventing.knative.dev"

_SUBSCRIPTIONS = {"Subscription": MESSAGING, "Trigger": EVENTING}
_NO_TIME = "is not a valid place"

_SPEC = Object(
    meaning="Which offsets to move, and where to. No field can be changed.",
    required=True,
    immutable=True,
    fields={
        "offset": Object(
            meaning="Where to.",
            required=True,
            fields={
                "time": Text(
                    meaning="`earliest`, `latest`, or a time such as `2026-01-31T08:00:00Z`: "
                    "the first record at or after that time.",
                    required=True,
                    pattern=START_ANNOTATION.pattern,
                    characters_max=64,
                    what=_NO_TIME,
                    hint=START_ANNOTATION.hint,
                    check=lambda text: None if text in tuple(Start) else time_complaint(text, _NO_TIME),
                )
            },
        ),
        "ref": Object(
            meaning="A Subscription or a Trigger in the same namespace.",
            required=True,
            fields={
                "apiVersion": Text(meaning="Group and version of the object.", required=True),
                "kind": Text(meaning="`Subscription` or `Trigger`.", required=True),
                "namespace": namespace_text("Namespace of the object: that of the ResetOffset, or absent."),
                "name": OBJECT_NAME,
            },
            rules=(
                Rule(
                    "kind",
                    " || ".join(
                        f"(self.kind == '{kind}' && self.apiVersion.startsWith('{group}/'))"
                        for kind, group in _SUBSCRIPTIONS.items()
                    ),
                    "is not a kind whose offsets can be moved",
                    f"write kind: Subscription of {MESSAGING}/v1, or kind: Trigger of {EVENTING}/v1",
                    holds=lambda ref: (
                        "/" in ref["apiVersion"]
                        and _SUBSCRIPTIONS.get(ref["kind"]) == ref["apiVersion"].partition("/")[0]
                    ),
                ),
            ),
        ),
    },
)

RESET_OFFSET = Kind(
    group=KAFKA_EVENTING,
    versions=("v1alpha1",),
    name="ResetOffset",
    meaning="Moves the offsets of a Subscription or Trigger, once.",
    spec=_SPEC,
    annotations=Object(fields={}),
    status={
        **CONDITIONS,
        "topic": Text(meaning="The topic."),
        "group": Text(meaning="The consumer group."),
        "partitions": Items(
            meaning="The offsets of each partition.",
            of=Object(
                fields={
                    "partition": Integer(meaning="The partition.", default=0, least=0),
                    "oldOffset": Integer(meaning="Before.", default=0, least=-1, wide=True),
                    "newOffset": Integer(meaning="After.", default=0, least=-1, wide=True),
                }
            ),
            most=10_000,
        ),
    },
    categories=("all", "knative", "eventing"),
    columns=(
        Column(name="Ref", path=".spec.ref.name"),
        Column(name="To", path=".spec.offset.time"),
        READY,
        REASON,
        AGE,
    ),
)


def read_reset_offset(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> ResetOffset:
    """Returns a ResetOffset. What it refers to may not be there."""
    spec = read_fields(reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), []), _SPEC)
    offset, ref = spec["offset"] or {"time": ""}, spec["ref"] or {"kind": "", "namespace": "", "name": ""}
    if ref["namespace"] not in ("", namespace):
        what = f"{ref['namespace']!r} is another namespace"
        place = ObjectReader({}, ("spec", "ref"), reader.problems)
        place.problem(
            "namespace",
            what,
            "a ResetOffset and the object that it refers to must be in the same namespace; remove the field",
        )
    return ResetOffset(
        namespace=namespace,
        name=name,
        to=start_of(offset["time"] or Start.LATEST),
        ref_kind=ref["kind"],
        ref_name=ref["name"],
    )
