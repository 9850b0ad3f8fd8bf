"""EventTypes: what `kn eventtype list` shows. One for each type and source of events that a channel or Broker receives.

    config-features of Knative: eventtype-auto-create: enabled
        -> traffic topic, from now on -> type and source of events that ingress has stored
        -> an EventType as Knative's own channels make it, owned by the channel or Broker, which it goes with

Types and sources are what senders choose, so each channel has a limited number of EventTypes.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from controller.kube.api_server import ApiServer
from controller.kube.errors import CONFLICT, ApiError
from controller.model import Key
from controller.source.cluster.objects import API_VERSIONS, Known
from controller.source.cluster.references import group_path
from controller.source.cluster.store import Name, Raw, metadata_of
from controller.source.cluster.watcher import Collection
from controller.source.cluster.watches import Trim, Watches
from controller.timing import ABSENT_S
from knative.contract.records import CHANNEL, kind_and_name
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, BadDeltaError, decode
from tables.kafka.compacted_topic import CompactedReader, Record

log = structlog.get_logger(__name__)

FLAG = "eventtype-auto-create"
API_VERSION = "eventing.knative.dev/v1beta2"
FEATURES = Collection("/api/v1/namespaces/knative-eventing/configmaps", name="config-features")

_SCHEME, _HEX = r"[A-Za-z][A-Za-z0-9+.-]*:", r"%[0-9A-Fa-f]{2}"
_PLAIN = rf"(?:[A-Za-z0-9._~/?#@!$&'()*+,;=-]|{_HEX})*"
_COLONS = rf"(?:[A-Za-z0-9._~/?#@!$&'()*+,;=:-]|{_HEX})*"
#: Sources that every parser of URIs takes. Knative's core could read no EventTypes at all if one has another.
_SOURCE = re.compile(
    rf"(?:{_SCHEME})?//[A-Za-z0-9.-]*(?::[0-9]{{1,5}})?(?:[/?#]{_COLONS})?|{_SCHEME}(?!//){_COLONS}|(?!//){_PLAIN}"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Where workers report what they count. `kafka`: librdkafka client settings."""

    kafka: Mapping[str, Any]
    topic: str


@dataclass(frozen=True, slots=True)
class Received:
    """Events of this kind have come to the channel or Broker with this key."""

    owner: Key
    type: str
    source: str

    @property
    def name(self) -> Name:
        """Namespace and name of the EventType: the same for the same events, whoever makes it."""
        _, namespace, name = self.owner
        digest = hashlib.md5(f"{self.type}{self.source}{namespace}{name}".encode(), usedforsecurity=False)
        return namespace, f"et-{name[:200]}-{digest.hexdigest()}"


def is_enabled(features: Raw | None) -> bool:
    """Whether the ConfigMap of Knative's features asks for EventTypes."""
    data = (features or {}).get("data") or {}
    return str(data.get(FLAG, "")).lower() == "enabled"


def received(record: Record) -> Received | None:
    """What a record of the traffic topic says; None = nothing about a type. An event in structured mode is counted
    without one."""
    try:
        delta = decode(record.value)
    except BadDeltaError:
        return None  # the traffic windows log it
    if delta.kind != ACCEPTED or not delta.type:
        return None
    kind, name = kind_and_name(delta.channel, CHANNEL)
    return Received((kind, delta.namespace, name), delta.type, delta.source)


def event_type(one: Received, owner: Known) -> Raw:
    """The EventType to create."""
    namespace, name = one.name
    kind, _, channel = one.owner
    there = {"apiVersion": API_VERSIONS[kind], "kind": kind, "name": channel}
    spec: dict[str, Any] = {
        "type": one.type,
        "reference": {**there, "namespace": namespace},
        "description": "Created by Penstock, because such an event was received",
    }
    if one.source and _SOURCE.fullmatch(one.source):
        spec["source"] = one.source
    metadata = {
        "namespace": namespace,
        "name": name,
        "labels": {"app.kubernetes.io/name": "penstock"},
        "ownerReferences": [{**there, "uid": owner.uid}],
    }
    return {"apiVersion": API_VERSION, "kind": "EventType", "metadata": metadata, "spec": spec}


def owner_of(raw: Raw) -> str:
    """The uid of the channel or Broker that an EventType belongs to; "" = of none."""
    return next((str(one.get("uid")) for one in metadata_of(raw).get("ownerReferences") or ()), "")


def _trim_features(raw: Raw) -> Raw:
    metadata = {key: metadata_of(raw).get(key) for key in ("namespace", "name", "uid", "resourceVersion")}
    return {"metadata": metadata, "data": {FLAG: (raw.get("data") or {}).get(FLAG, "")}}


def _trim(raw: Raw) -> Raw:
    kept = ("namespace", "name", "uid", "resourceVersion", "ownerReferences")
    return {"metadata": {key: metadata_of(raw).get(key) for key in kept}}


class EventTypes:
    """Makes EventTypes as long as Knative's features ask for it. Event loop only."""

    def __init__(
        self,
        api: ApiServer,
        watches: Watches,
        namespaces: Sequence[str],
        traffic: Traffic | None,
        may_write: Callable[[], bool],
    ) -> None:
        """`traffic`: None = nothing is counted, so there are none. `may_write`: whether this process has the Lease."""
        self._api = api
        self._watches = watches
        self._traffic = traffic
        self._may_write = may_write
        base = group_path(API_VERSION)
        paths = [f"{base}/namespaces/{one}/eventtypes" if one else f"{base}/eventtypes" for one in namespaces]
        self._lists = [Collection(path) for path in paths]
        self._namespaces = frozenset(namespaces)
        self._reader: CompactedReader | None = None
        self._new: defaultdict[Key, dict[Name, Received]] = defaultdict(dict)  #: by channel or Broker
        self._not_before = 0.0  #: on the monotonic clock
        self._said = ""  #: the last problem

    @property
    def wanted(self) -> Mapping[Collection, Trim]:
        """What to watch."""
        if self._traffic is None:
            return {}
        return {FEATURES: _trim_features, **(dict.fromkeys(self._lists, _trim) if self._reader is not None else {})}

    @property
    def waits(self) -> bool:
        """Whether there is something to write now."""
        stores = self._watches.stores(self._lists)
        is_listed = bool(stores) and all(store.synced for store in stores)
        return bool(self._new) and is_listed and time.monotonic() >= self._not_before

    async def follow(self) -> None:
        """Begin, or end, as the features say now."""
        found = [raw for store in self._watches.stores([FEATURES]) for raw in store.objects.values()]
        enabled = is_enabled(found[0] if found else None)
        if enabled and self._reader is None and self._traffic is not None:
            log.info("EventTypes are created, as the ConfigMap config-features asks")
            topic, kafka = self._traffic.topic, self._traffic.kafka
            self._reader = CompactedReader(
                topic, kafka, apply=self.take, caught_up=lambda: None, crashed=self._failed, from_end=True
            )
            self._reader.start()
        elif not enabled and self._reader is not None:
            log.info("EventTypes are not created any more, as the ConfigMap config-features asks")
            await self.stop()

    async def stop(self) -> None:
        """Stop reading."""
        reader, self._reader = self._reader, None
        self._new.clear()
        if reader is not None:
            await reader.stop()

    def _failed(self, problem: BaseException) -> None:
        log.error("EventTypes are not created until this process starts again", reason=repr(problem))

    def take(self, records: Sequence[Record]) -> None:
        """Remember what is new in these records."""
        stores = self._watches.stores(self._lists)
        for one in filter(None, map(received, records)):
            here = "" in self._namespaces or one.name[0] in self._namespaces
            if not here or any(one.name in store.objects for store in stores):
                continue
            of_owner = self._new[one.owner]
            if len(of_owner) < COMBINATIONS_MAX:
                of_owner[one.name] = one

    async def write(self, find: Callable[[Key], Known | None]) -> None:
        """Create what is new. `find`: the channel or Broker, if it is served."""
        if not self.waits:
            return
        there: defaultdict[str, int] = defaultdict(int)
        for store in self._watches.stores(self._lists):
            for raw in store.objects.values():
                there[owner_of(raw)] += 1
        new, self._new = self._new, defaultdict(dict)
        for key, of_owner in new.items():
            owner = find(key)
            if owner is None:
                continue
            room = max(COMBINATIONS_MAX - there[owner.uid], 0)
            if len(of_owner) > room:
                self._say(f"{'/'.join(key)} has {COMBINATIONS_MAX} EventTypes, and gets no more")
            written = list(of_owner.items())[:room]
            done = await asyncio.gather(*(self._create(one, owner) for _, one in written))
            left = {name: one for (name, one), created in zip(written, done, strict=True) if not created}
            if left:
                self._new[key].update(left)

    async def _create(self, one: Received, owner: Known) -> bool:
        """Whether it is there now."""
        if not self._may_write():
            return False
        document = event_type(one, owner)
        path = f"{group_path(API_VERSION)}/namespaces/{one.name[0]}/eventtypes"
        try:
            await self._api.request("POST", path, {}, document)
        except ApiError as problem:
            if problem.status == CONFLICT:
                return True
            self._say(f"an EventType cannot be created: {problem}")
            self._not_before = time.monotonic() + ABSENT_S
            return False
        self._said = ""
        return True

    def _say(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            log.warning(problem)
