"""Turns objects of a cluster into documents that a directory accepts and that mean the same there. Pure.

What the cluster added is left out. A ref that a directory cannot resolve becomes the URI that the status has for it.
An object that a directory would reject is named instead of exported.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from controller.source.cluster.objects import LAST_APPLIED
from controller.source.cluster.store import Raw, metadata_of, name_of
from knative.resources.brokers import BROKER_CLASS, KAFKA_CLASS
from knative.resources.kinds import API_VERSIONS, Invalid, parse

#: In this order: a Broker needs its ConfigMap, a Subscription its channel, and a Trigger its Broker.
KINDS = ("ConfigMap", "KafkaChannel", "Broker", "Subscription", "Trigger")
_CLUSTERS_OWN = ("meta.helm.sh/", "argocd.argoproj.io/", "kubectl.kubernetes.io/", LAST_APPLIED)
_WRITTEN_BY_KNATIVE = ("/creator", "/lastModifier")
_CONTENT = ("spec", "data", "binaryData")
#: Path of a Destination in `spec` -> the part of the status with its address, and the key in that part.
_DESTINATIONS: Mapping[str, Mapping[tuple[str, ...], tuple[str, str]]] = {
    "KafkaChannel": {("delivery", "deadLetterSink"): ("", "deadLetterSink")},
    "Broker": {("delivery", "deadLetterSink"): ("", "deadLetterSink")},
    "Trigger": {("subscriber",): ("", "subscriber"), ("delivery", "deadLetterSink"): ("", "deadLetterSink")},
    "Subscription": {
        ("subscriber",): ("physicalSubscription", "subscriber"),
        ("reply",): ("physicalSubscription", "reply"),
        ("delivery", "deadLetterSink"): ("physicalSubscription", "deadLetterSink"),
    },
}

Key = tuple[str, str, str]  #: (kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Exported:
    """One object for a directory. `notes`: what people should know about it, for comments."""

    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object that is not exported. `others`: it is not Penstock's, so the export is complete without it."""

    kind: str
    namespace: str
    name: str
    why: str
    others: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Export:
    """The result: documents, and objects that are left out."""

    documents: tuple[Exported, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of `spec.subscribers`: the name of the KafkaChannel, and the name of the subscription."""

    channel: str
    name: str


class _CannotBeExported(Exception):
    """An object cannot be exported; `str()` is the reason. `others` as in `LeftOut`."""

    def __init__(self, why: str, *, others: bool = False) -> None:
        super().__init__(why)
        self.others = others


def config_maps_needed(brokers: Iterable[Raw]) -> set[tuple[str, str]]:
    """Returns (namespace, name) of the ConfigMaps that Penstock's Brokers refer to."""
    config_maps = set()
    for raw in brokers:
        config = (raw.get("spec") or {}).get("config")
        if _is_ours(raw) and isinstance(config, Mapping) and config.get("kind") == "ConfigMap":
            config_maps.add((str(config.get("namespace") or name_of(raw)[0]), str(config.get("name"))))
    return config_maps


def export(objects: Mapping[str, Iterable[Raw]], *, core: bool) -> Export:
    """Returns the documents of `objects` (by kind). `core`: Knative's core writes the subscribers of channels from
    Subscriptions, so these are exported instead."""
    every = [(kind, raw) for kind in KINDS for raw in sorted(objects.get(kind, ()), key=name_of)]
    our_keys = {(kind, *name_of(raw)) for kind, raw in every if _is_ours(raw)}
    entries = _entries(objects.get("KafkaChannel", ())) if core else {}
    documents, left_out = [], []
    for kind, raw in every:
        namespace, name = name_of(raw)
        entry = entries.pop((namespace, str(metadata_of(raw).get("uid"))), None) if kind == "Subscription" else None
        try:
            documents.append(_exported(kind, raw, our_keys, core, entry.channel if entry else None))
        except _CannotBeExported as problem:
            left_out.append(LeftOut(kind, namespace, name, str(problem), problem.others))
    for (namespace, uid), leftover in entries.items():
        why = (
            f"the Subscription is deleted. Knative's core left its entry (uid {uid}) in KafkaChannel "
            f"{leftover.channel}, and the entry is not served"
        )
        left_out.append(LeftOut("Subscription", namespace, leftover.name, why, others=True))
    return Export(tuple(documents), tuple(left_out))


def _entries(channels: Iterable[Raw]) -> dict[tuple[str, str], _Entry]:
    """Returns (namespace, uid) of each subscription in `spec.subscribers` of a KafkaChannel."""
    return {
        (name_of(raw)[0], str(entry.get("uid"))): _Entry(name_of(raw)[1], str(entry.get("name") or entry.get("uid")))
        for raw in channels
        for entry in (raw.get("spec") or {}).get("subscribers") or ()
    }


def _exported(kind: str, raw: Raw, our_keys: set[Key], core: bool, channel: str | None) -> Exported:
    """Returns the document of one object. `channel`: the KafkaChannel that serves this Subscription, if core has
    written it there. Raises _CannotBeExported."""
    namespace, name = name_of(raw)
    if metadata_of(raw).get("deletionTimestamp"):
        raise _CannotBeExported("it is being deleted")
    if channel is None:
        _check_owner(kind, raw, our_keys)
    document: dict[str, Any] = {
        "apiVersion": API_VERSIONS[kind],
        "kind": kind,
        "metadata": _metadata(raw),
        **{part: copy.deepcopy(raw[part]) for part in _CONTENT if part in raw},
    }
    spec = document.get("spec")
    notes: list[str] = []
    if isinstance(spec, dict):
        if core and kind == "KafkaChannel":
            spec.pop("subscribers", None)
        if channel is not None:
            _serve_from(channel, spec, namespace, notes)
        for path, resolved in _DESTINATIONS.get(kind, {}).items():
            _resolve(spec, path, resolved, raw, our_keys, notes)
    try:
        parse(document)
    except Invalid as problem:
        raise _CannotBeExported(f"a directory would reject it: {problem}") from problem
    return Exported(kind, namespace, name, document, tuple(notes))


def _metadata(raw: Raw) -> dict[str, Any]:
    metadata = metadata_of(raw)
    fields: dict[str, Any] = {"namespace": metadata["namespace"], "name": metadata["name"]}
    if metadata.get("labels"):
        fields["labels"] = dict(metadata["labels"])
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith(_CLUSTERS_OWN) and not key.endswith(_WRITTEN_BY_KNATIVE)
    }
    if annotations:
        fields["annotations"] = annotations
    return fields


def _is_ours(raw: Raw) -> bool:
    """Returns whether it is of a class that Penstock serves; only Brokers have one."""
    annotations = metadata_of(raw).get("annotations") or {}
    return raw.get("kind") != "Broker" or annotations.get(BROKER_CLASS) == KAFKA_CLASS


def _check_owner(kind: str, raw: Raw, our_keys: set[Key]) -> None:
    """Raises _CannotBeExported for another implementation's Broker, and for what belongs to its Broker or channel."""
    spec = raw.get("spec") or {}
    namespace, _ = name_of(raw)
    if not _is_ours(raw):
        raise _CannotBeExported(f"it is not of class {KAFKA_CLASS}", others=True)
    if kind == "Trigger" and ("Broker", namespace, str(spec.get("broker"))) not in our_keys:
        raise _CannotBeExported(f"its broker {spec.get('broker')} is not exported", others=True)
    channel = spec.get("channel") or {}
    if kind == "Subscription" and channel.get("kind") != "KafkaChannel":
        raise _CannotBeExported(f"its channel is a {channel.get('kind')}", others=True)


def _serve_from(channel: str, spec: dict[str, Any], namespace: str, notes: list[str]) -> None:
    """Turn a Subscription to a Channel into one to the KafkaChannel behind it: a directory has no Channels."""
    ref = spec.get("channel") or {}
    if ref.get("kind") != "KafkaChannel":
        notes.append(
            f"spec.channel was a ref to {ref.get('kind')} {namespace}/{ref.get('name')}, in front of this channel."
        )
        spec["channel"] = {"apiVersion": API_VERSIONS["KafkaChannel"], "kind": "KafkaChannel", "name": channel}


def _resolve(
    spec: dict[str, Any],
    path: tuple[str, ...],
    resolved: tuple[str, str],
    raw: Raw,
    our_keys: set[Key],
    notes: list[str],
) -> None:
    """Replace the ref of one Destination by its address, unless a directory resolves the ref to the same address."""
    *parents, last = path
    holder: Any = spec
    for part in parents:
        holder = holder.get(part) if isinstance(holder, dict) else None
    destination = holder.get(last) if isinstance(holder, dict) else None
    if not isinstance(destination, dict) or not isinstance(ref := destination.get("ref"), Mapping):
        return
    where = str(ref.get("namespace") or name_of(raw)[0])
    kind, version, name = str(ref.get("kind")), str(ref.get("apiVersion") or ""), str(ref.get("name"))
    if (version, kind) == ("v1", "Service") or (
        API_VERSIONS.get(kind) == version and kind in ("KafkaChannel", "Broker") and (kind, where, name) in our_keys
    ):
        return
    field = ".".join(("spec", *path))
    uri, certs = _in_status(raw, *resolved)
    target = f"{kind} {where}/{name} of {version or 'no apiVersion'}"
    if uri is None:
        raise _CannotBeExported(
            f"{field} refers to {target}, which a directory cannot resolve, and the status does not have its address"
        )
    query = urlsplit(str(destination.get("uri") or "")).query
    if query and "?" not in uri:  # statuses show URLs without their query
        uri = f"{uri}?{query}"
    certs = destination.get("CACerts") or certs
    holder[last] = {"uri": uri, **({"CACerts": certs} if certs else {})}
    notes.append(f"{field} was a ref to {target}; this was its address when it was exported.")


def _in_status(raw: Raw, part: str, key: str) -> tuple[str | None, str | None]:
    """Returns the URI and the certificates of a Destination in the status; None where the status has none, or is about
    an earlier spec."""
    status = raw.get("status") or {}
    if status.get("observedGeneration") != metadata_of(raw).get("generation"):
        return None, None
    holder = (status.get(part) or {}) if part else status
    return holder.get(f"{key}Uri") or None, holder.get(f"{key}CACerts") or None
