"""Objects of a cluster as documents of a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from app.operations.export.documents import KINDS, Export, Exported, config_maps_needed, export
from app.operations.export.files import file_of, to_text, write
from controller.source.directory import Directory
from controller.source.yaml_reader import read_documents
from knative.errors import PenstockError, UsageError
from knative.resources.kinds import OURS, Invalid, parse
from tests.support.kube.documents import Case, read_cases

API = {kind.name: kind.api_version for kind in OURS}
KAFKA = {"eventing.knative.dev/broker.class": "Kafka"}
KNATIVE = {"kind": "Service", "apiVersion": "serving.knative.dev/v1", "name": "bill"}
CHANNEL_REF = {"apiVersion": API["KafkaChannel"], "kind": "KafkaChannel", "name": "orders"}

Json = dict[str, Any]


def _object(kind: str, name: str, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    """As an API server has it."""
    added = {"uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": "now", "managedFields": [{}]}
    annotations = {**(KAFKA if kind == "Broker" else {}), **metadata.pop("annotations", {})}
    document: Json = {
        "apiVersion": API.get(kind, "v1"), "kind": kind,
        "metadata": {"namespace": "ns", "name": name, **added, "annotations": annotations, **metadata},
    }  # fmt: skip
    document.update({} if spec is None else {"spec": spec})
    return document | ({} if status is None else {"status": {"observedGeneration": 2, **status}})


CHANNEL = _object("KafkaChannel", "orders", {"numPartitions": 3}, {"address": {"url": "http://x"}})
BROKER = _object("Broker", "shop")


def _subscription(subscriber: Json, status: Json | None = None, **more: Any) -> Json:
    spec = {"channel": CHANNEL_REF, "subscriber": subscriber, **more}
    return _object("Subscription", "bill", spec, status)


def _trigger(subscriber: Json, status: Json | None = None, broker: str = "shop") -> Json:
    return _object("Trigger", "bill", {"broker": broker, "subscriber": subscriber}, status)


def _export(*objects: Json, core: bool = False) -> Export:
    kinds: dict[str, list[Json]] = {}
    for object_ in objects:
        kinds.setdefault(object_["kind"], []).append(object_)
    return export(kinds, core=core)


def _document(kind: str, *objects: Json, core: bool = False) -> Exported:
    done = _export(*objects, core=core)
    assert done.left_out == ()
    (exported,) = [document for document in done.documents if document.kind == kind]
    return exported


def test_what_the_cluster_added_is_left_away() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "messaging.knative.dev/creator": "me",
        "penstock.dev/hosts": "a.example",
        "example.com/team": "orders",
    }
    exported = _document(
        "KafkaChannel",
        _object("KafkaChannel", "orders", {"numPartitions": 3}, {"conditions": []}, annotations=annotations,
                labels={"a": "b"}, finalizers=["penstock.dev/finalizer"]),
    )  # fmt: skip
    assert exported.document == {
        "apiVersion": API["KafkaChannel"], "kind": "KafkaChannel",
        "metadata": {
            "namespace": "ns", "name": "orders", "labels": {"a": "b"},
            "annotations": {"penstock.dev/hosts": "a.example", "example.com/team": "orders"},
        },
        "spec": {"numPartitions": 3},
    }  # fmt: skip


@pytest.mark.parametrize(
    "subscriber",
    [
        {"uri": "http://s/"},
        {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "uri": "/hook"},
        {"ref": CHANNEL_REF},
        {"ref": {"apiVersion": API["Broker"], "kind": "Broker", "name": "shop"}},
    ],
)
def test_refs_that_a_directory_resolves_stay(subscriber: Json) -> None:
    exported = _document("Subscription", CHANNEL, BROKER, _subscription(subscriber, {}))
    assert exported.document["spec"]["subscriber"] == subscriber
    assert exported.notes == ()


def test_other_refs_become_their_addresses() -> None:
    physical = {
        "subscriberUri": "http://bill/hook", "subscriberCACerts": "-----BEGIN CERTIFICATE-----",
        "replyUri": "http://reply", "deadLetterSinkUri": "http://dead",
    }  # fmt: skip
    ref = {"ref": KNATIVE}
    given_ = _subscription(
        {**ref, "uri": "/hook"}, {"physicalSubscription": physical}, reply=ref, delivery={"deadLetterSink": ref}
    )
    exported = _document("Subscription", CHANNEL, given_)
    spec = exported.document["spec"]
    assert spec["subscriber"] == {"uri": "http://bill/hook", "CACerts": "-----BEGIN CERTIFICATE-----"}
    assert spec["reply"] == {"uri": "http://reply"}
    assert spec["delivery"] == {"deadLetterSink": {"uri": "http://dead"}}
    assert len(exported.notes) == 3
    assert exported.notes[0].startswith("spec.subscriber was a ref to Service ns/bill of serving.knative.dev/v1")
    assert given_["spec"]["reply"] == ref, "the object itself stays as it is"
    trigger = _document("Trigger", BROKER, _trigger(ref, {"subscriberUri": "http://bill"}))
    assert trigger.document["spec"]["subscriber"] == {"uri": "http://bill"}


@pytest.mark.parametrize(
    ("written", "resolved", "uri"),
    [
        ("/hook?key=1", "http://bill/hook", "http://bill/hook?key=1"),
        ("?key=1", "http://bill/", "http://bill/?key=1"),
        ("/hook?key=1", "http://bill/hook?key=1", "http://bill/hook?key=1"),
        ("/hook", "http://bill/hook", "http://bill/hook"),
    ],
)
def test_query_comes_from_the_spec(written: str, resolved: str, uri: str) -> None:
    """Penstock's own statuses do not have it; those of Knative's core do."""
    trigger = _document("Trigger", BROKER, _trigger({"ref": KNATIVE, "uri": written}, {"subscriberUri": resolved}))
    assert trigger.document["spec"]["subscriber"] == {"uri": uri}


@pytest.mark.parametrize(
    ("objects", "name", "why", "others"),
    [
        ([CHANNEL, _subscription({"ref": KNATIVE}, {})], "bill", "the status does not have its address", False),
        ([CHANNEL, _subscription({"ref": KNATIVE}, {"observedGeneration": 1, "physicalSubscription":
          {"subscriberUri": "http://old"}})], "bill", "the status does not have its address", False),
        ([_object("KafkaChannel", "orders", {"numPartitions": 0})], "orders", "a directory would reject it", False),
        ([_object("KafkaChannel", "orders", {}, deletionTimestamp="now")], "orders", "being deleted", False),
        ([_object("Broker", "b", annotations={"eventing.knative.dev/broker.class": "X"})], "b", "of class Kafka", True),
        ([_trigger({"uri": "http://s"}, broker="other")], "bill", "its broker other is not exported", True),
        ([_object("Subscription", "s", {"channel": {"kind": "InMemoryChannel"}})], "s", "is a InMemoryChannel", True),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_named(objects: list[Json], name: str, why: str, others: bool) -> None:
    (left,) = _export(*objects).left_out
    assert (left.name, left.others) == (name, others)
    assert why in str(left)


def test_channel_that_is_not_exported_is_replaced_by_its_address() -> None:
    ref = {"ref": {**CHANNEL_REF, "namespace": "elsewhere"}}
    exported = _document("Trigger", BROKER, _trigger(ref, {"subscriberUri": "http://orders"}))
    assert exported.document["spec"]["subscriber"] == {"uri": "http://orders"}


def test_entries_of_channels_are_knatives_if_core_writes_them() -> None:
    entries = [{"uid": "u1", "name": "bill", "generation": 1, "subscriberUri": "http://bill"}]
    channel = _object("KafkaChannel", "orders", {"subscribers": entries})
    assert _document("KafkaChannel", channel).document["spec"] == {"subscribers": entries}
    (exported,) = _export(channel, core=True).documents
    assert exported.document["spec"] == {}


CHANNELS_REF = {"apiVersion": API["Subscription"], "kind": "Channel", "name": "front"}
ENTRY = {"uid": "u", "name": "bill", "generation": 1, "subscriberUri": "http://bill"}


@pytest.mark.parametrize(
    ("ref", "entries", "served", "left_out"),
    [
        (CHANNEL_REF, [ENTRY], CHANNEL_REF, []),
        (CHANNELS_REF, [ENTRY], CHANNEL_REF, []),
        (CHANNELS_REF, [], None, [("bill", True)]),
        (CHANNEL_REF, [ENTRY, {**ENTRY, "uid": "v", "name": "gone"}], CHANNEL_REF, [("gone", True)]),
        (CHANNELS_REF, [{**ENTRY, "subscriberUri": ""}], CHANNEL_REF, []),
        (CHANNELS_REF, [{**ENTRY, "uid": "v", "name": ""}], None, [("bill", True), ("v", True)]),
    ],
)
def test_every_subscription_that_a_channel_serves_is_exported_or_named(
    ref: Json, entries: list[Json], served: Json | None, left_out: list[tuple[str, bool]]
) -> None:
    subscription = _object("Subscription", "bill", {"channel": ref, "subscriber": {"uri": "http://bill"}})
    done = _export(_object("KafkaChannel", "orders", {"subscribers": entries}), subscription, core=True)
    assert [(out.name, out.others) for out in done.left_out] == left_out
    subscriptions = [document for document in done.documents if document.kind == "Subscription"]
    assert [exported.document["spec"]["channel"] for exported in subscriptions] == ([] if served is None else [served])
    assert all(bool(exported.notes) == (ref != served) for exported in subscriptions)


def test_subscription_of_a_channel_that_cannot_be_exported_is_missing() -> None:
    subscription = _object("Subscription", "bill", {"channel": CHANNELS_REF, "subscriber": {"ref": KNATIVE}}, {})
    (left,) = _export(_object("KafkaChannel", "orders", {"subscribers": [ENTRY]}), subscription, core=True).left_out
    assert (left.name, left.others) == ("bill", False)


def test_config_maps_of_brokers() -> None:
    config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}
    other = {"eventing.knative.dev/broker.class": "X"}
    brokers = [_object("Broker", "b", config), _object("Broker", "o", config, annotations=other), BROKER]
    assert config_maps_needed(brokers) == {("ns", "c")}


@pytest.mark.parametrize("case", [case for case in read_cases() if not case.field and case.kind in KINDS], ids=str)
def test_every_valid_object_means_the_same_in_a_file(case: Case, tmp_path: Path) -> None:
    raw = {**case.document, "metadata": {"namespace": "ns", **case.document["metadata"]}}
    try:
        resource = parse(raw)
    except Invalid:
        return  # what only an API server accepts
    if resource is None or case.kind in ("Subscription", "Trigger"):
        return  # their references are in the tests above
    if case.kind == "ResetOffset":  # what was carried out in a cluster must not be carried out again
        assert _export(raw).documents == ()
        return
    done = _export(raw)
    if done.left_out:
        assert all(left_out.others or "cannot resolve" in left_out.why for left_out in done.left_out)
        return
    assert write(done.documents, tmp_path, force=False) == 1
    snapshot = Directory(tmp_path).scan()
    assert [object_.resource for object_ in snapshot.objects] == [resource], snapshot.problems


@example("\n\x85", "yes")
@example("\n\u2028", "yes")
@example("a\r\nb", "yes")
@given(st.text(min_size=1, max_size=30), st.sampled_from(["yes", "1e3", "012", "0x1f", "null", "1:30", "a\nb\n", "~"]))
def test_texts_stay_texts(text: str, word: str) -> None:
    document = {"a": text, "b": word, "c": [word, text], "d": {"e": 1, "f": True}}
    written = to_text(Exported("Kind", "ns", "n", document, ("a note",)))
    assert yaml.safe_load(written) == document
    try:
        (read,) = read_documents(written.encode())
    except ValueError:
        return  # characters that a directory does not accept at all
    assert read.value == document


def test_files_are_not_overwritten_unless_asked_to(tmp_path: Path) -> None:
    first = _export(CHANNEL, BROKER).documents
    assert write(first, tmp_path, force=False) == 2
    assert write(first, tmp_path, force=False) == 0
    edited = tmp_path / file_of(first[0])
    edited.write_text("mine")
    more = _export(CHANNEL, BROKER, _object("KafkaChannel", "new")).documents
    with pytest.raises(PenstockError, match="Nothing was written"):
        write(more, tmp_path, force=False)
    assert edited.read_text() == "mine"
    assert not list(tmp_path.rglob("*new*"))
    assert write(more, tmp_path, force=True) == 2
    assert edited.read_text() == to_text(first[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write(first, tmp_path / "file", force=True)
