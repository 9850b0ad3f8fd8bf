"""The definition of the kinds: what both sides evaluate is the same, and the generated schemas keep the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.delivery.policy import (
    DURATION_CHARS_MAX,
    DURATION_PATTERN,
    POSITIVE_PATTERN,
    DeliverySpec,
    is_positive,
    parse_duration_s,
)
from knative.filters.dialects import LISTS, PAIRS
from knative.resources import kinds
from knative.resources.brokers import BROKER, TRIGGER
from knative.resources.channels import KAFKA_CHANNEL, SUBSCRIPTION
from knative.resources.crds import crd
from knative.resources.destination import ABSOLUTE_PATTERN, RELATIVE_PATTERN
from knative.resources.fields import delivery, delivery_of
from knative.resources.fields_reader import read_fields
from knative.resources.kinds import OURS, Invalid
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import Items, Kind
from knative.resources.values import DeliveryRules, KafkaChannel
from knative.urls import uri_problem

_DURATIONS = st.one_of(
    st.text("PTWDHMSY0123456789.,", max_size=24),
    st.from_regex(rf"\A{DURATION_PATTERN}\Z").filter(lambda text: len(text) <= DURATION_CHARS_MAX),
)


def _seconds(text: str) -> float | None:
    """Of a duration; infinite if it is too long, None if it is not one."""
    try:
        return parse_duration_s(text)
    except ValueError as wrong:
        return float("inf") if "longer than 100 years" in str(wrong) else None


@given(_DURATIONS)
def test_duration_pattern_takes_what_is_parsed(text: str) -> None:
    assert (re.fullmatch(DURATION_PATTERN, text) is not None) == (_seconds(text) is not None)


@given(_DURATIONS)
def test_positive_durations_last_a_millisecond(text: str) -> None:
    seconds = _seconds(text)
    if seconds is not None and is_positive(text):
        assert re.search(POSITIVE_PATTERN, text)
        assert seconds >= 0.001


_URI_TEXT = st.one_of(
    st.text("htps:/?#[]@.%abz019-_~ é", max_size=30),
    st.builds("http://{}".format, st.text("abz019.-_:[]@/?#", max_size=20)),
    st.from_regex(rf"\A{ABSOLUTE_PATTERN}\Z"),
)


@given(_URI_TEXT)
def test_absolute_uris_without_a_problem_match_their_pattern(uri: str) -> None:
    if re.fullmatch(ABSOLUTE_PATTERN, uri):
        assert uri_problem(uri) is None or "[" in uri, "only addresses in brackets are checked further"
    else:
        assert uri_problem(uri) is not None or not re.match("(http|https|HTTP|HTTPS)://", uri)


@given(_URI_TEXT, st.booleans())
def test_destination_takes_what_the_patterns_take(uri: str, ref: bool) -> None:
    subscriber: dict[str, Any] = {"uri": uri}
    if ref:
        subscriber["ref"] = {"kind": "Service", "name": "sink"}
    spec = {"channel": {"name": "orders"}, "subscriber": subscriber}
    value = {"apiVersion": SUBSCRIPTION.api_version, "kind": "Subscription", "metadata": {"name": "a"}, "spec": spec}
    pattern = f"({RELATIVE_PATTERN})?" if ref else ABSOLUTE_PATTERN
    matches = re.fullmatch(pattern, uri) is not None
    assert _is_valid(value) == matches or (matches and "[" in uri)


def _is_valid(value: dict[str, Any]) -> bool:
    try:
        return kinds.parse(value) is not None
    except Invalid:
        return False


def test_filters_have_every_dialect() -> None:
    filters = TRIGGER.spec.fields["filters"]
    assert isinstance(filters, Items)
    assert set(filters.of.fields) == (PAIRS.keys() - {"attributes"}) | LISTS.keys() | {"not", "cesql"}


def test_defaults_of_the_shapes_are_those_of_the_values() -> None:
    fields = delivery("").fields
    preset = {name: getattr(node, "default", None) for name, node in fields.items()}
    spec = DeliverySpec()
    assert (preset["retry"], preset["backoffPolicy"], preset["format"]) == (
        spec.retry,
        spec.backoff_policy,
        spec.format,
    )
    durations = [parse_duration_s(str(preset[name])) for name in ("backoffDelay", "timeout")]
    assert durations == [spec.backoff_delay_s, spec.timeout_s]
    assert delivery_of(read_fields(ObjectReader({}, (), []), delivery(""))) == DeliveryRules()
    value = {"apiVersion": KAFKA_CHANNEL.api_version, "kind": "KafkaChannel", "metadata": {"name": "a"}}
    assert kinds.parse(value) == KafkaChannel("default", "a")


def _schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from _schemas(inner, f"{path}.{key}")
    if "items" in schema:
        yield from _schemas(schema["items"], f"{path}[]")


def _schema(kind: Kind) -> dict[str, Any]:
    schema: dict[str, Any] = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.name)
def test_every_field_of_a_crd_is_explained(kind: Kind) -> None:
    silent = [
        path
        for path, schema in _schemas(_schema(kind))
        if path.startswith(".spec") and not path.endswith("[]") and not schema.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("kind", [KAFKA_CHANNEL, BROKER], ids=lambda kind: kind.name)
def test_spec_has_a_default_if_it_may_be_absent(kind: Kind) -> None:
    assert _schema(kind)["properties"]["spec"]["default"] == {}


@pytest.mark.parametrize("kind", [SUBSCRIPTION, TRIGGER], ids=lambda kind: kind.name)
def test_spec_is_required_if_it_has_required_fields(kind: Kind) -> None:
    assert _schema(kind)["required"] == ["spec"]


def test_nothing_is_written_into_entries_that_another_controller_writes() -> None:
    # It would see a difference to what it wrote, and write again, for ever.
    subscribers = _schema(KAFKA_CHANNEL)["properties"]["spec"]["properties"]["subscribers"]
    assert [path for path, schema in _schemas(subscribers) if "default" in schema] == []


def test_channel_is_what_duck_types_of_knative_look_for() -> None:
    definition = crd(KAFKA_CHANNEL)
    assert definition["metadata"]["labels"]["messaging.knative.dev/subscribable"] == "true"
    assert definition["metadata"]["labels"]["duck.knative.dev/addressable"] == "true"
    assert "channel" in definition["spec"]["names"]["categories"]
