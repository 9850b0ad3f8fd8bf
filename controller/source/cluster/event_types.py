"""EventTypes: what `kn eventtype list` shows. Some say what people expect, which the topology compares with what comes.
Others are made, one for each type and source of events that a channel or Broker receives.

    config-features of Knative: eventtype-auto-create: enabled
        -> traffic topic, from now on -> type and source of events that ingress has stored
        -> an EventType as Knative's own channels make it, owned by the channel or Broker, which it goes with

Types and sources are what senders choose, so each channel has a limited number of EventTypes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import structlog

from controller.kube.api_server import ApiServer, in_turns
from controller.kube.errors import ALREADY_EXISTS, NOT_VALID, ApiError
from controller.model import PART_MAX, Key
from controller.source.cluster.objects import ClusterObject, path_of
from controller.source.cluster.store import Name, Raw, identity_of, metadata_of, name_of
from controller.source.cluster.watcher import Collection
from controller.source.cluster.watches import Trim, Watches
from controller.source.declared_types import by_channel
from controller.timing import ABSENT_S
from knative.contract.records import CHANNEL, kind_and_name
from knative.resources.event_types import channel_of
from knative.resources.kinds import API_VERSIONS
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, BadDeltaError, decode
from tables.kafka.compacted_topic import CompactedReader, Record

log = structlog.get_logger(__name__)

FLAG = "eventtype-auto-create"
FEATURES = Collection("/api/v1/namespaces/knative-eventing/configmaps", name="config-features")

_IS_ACCEPTED = f'"kind":"{ACCEPTED}"'.encode()
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
    """Returns whether the ConfigMap of Knative's features asks for EventTypes."""
    data = (features or {}).get("data") or {}
    return str(data.get(FLAG, "")).lower() == "enabled"


def received(record: Record) -> Received | None:
    """Returns what a record of the traffic topic says; None = nothing about a type. An event in structured mode is
    counted without one."""
    if _IS_ACCEPTED not in (record.value or b""):
        return None  # most are of what was delivered, and decoding one takes 33 us of the event loop
    try:
        delta = decode(record.value)
    except BadDeltaError:
        return None  # the traffic windows log it
    if delta.kind != ACCEPTED or not delta.type:
        return None
    kind, name = kind_and_name(delta.channel, CHANNEL)
    return Received((kind, delta.namespace, name), delta.type, delta.source)


def event_type(event: Received, owner: ClusterObject) -> Raw:
    """Returns the EventType to create."""
    namespace, name = event.name
    kind, _, channel = event.owner
    reference = {"apiVersion": API_VERSIONS[kind], "kind": kind, "name": channel}
    spec: dict[str, Any] = {
        "type": event.type,
        "reference": {**reference, "namespace": namespace},
        "description": "Created by Penstock, because an event of this type was received",
    }
    if event.source and _SOURCE.fullmatch(event.source):
        spec["source"] = event.source
    metadata = {
        "namespace": namespace,
        "name": name,
        "labels": {"app.kubernetes.io/name": "penstock"},
        "ownerReferences": [{**reference, "uid": owner.uid}],
    }
    return {"apiVersion": API_VERSIONS["EventType"], "kind": "EventType", "metadata": metadata, "spec": spec}


def owner_of(raw: Raw) -> str:
    """Returns the uid of the channel or Broker that an EventType belongs to; "" = of none."""
    return next((str(owner.get("uid")) for owner in metadata_of(raw).get("ownerReferences") or ()), "")


def _trim_features(raw: Raw) -> Raw:
    return {"metadata": identity_of(raw), "data": {FLAG: (raw.get("data") or {}).get(FLAG, "")}}


def declared(raw: Raw) -> tuple[Key, str] | None:
    """Returns the channel or Broker, and the type that somebody expects there. None: it does not say them, or it was
    made from what has come, by us or by an implementation of Knative: what it names owns it then."""
    spec, namespace = raw.get("spec") or {}, name_of(raw)[0]
    channel, reference = channel_of(spec, namespace), spec.get("reference") or {}
    owned = any(
        (owner.get("kind"), owner.get("name")) == (reference.get("kind"), reference.get("name"))
        for owner in metadata_of(raw).get("ownerReferences") or ()
    )
    return (channel, str(spec["type"])) if channel and spec.get("type") and not owned else None


def _trim(raw: Raw) -> Raw:
    return {"metadata": identity_of(raw, "ownerReferences"), "declared": declared(raw)}


@dataclass(slots=True)
class _Waiting:
    """What a channel or Broker has received, and has no EventType yet."""

    types: dict[Name, Received] = field(default_factory=dict)
    not_before: float = 0.0  #: on the monotonic clock
    said: str | None = None  #: the last problem

    @property
    def is_due(self) -> bool:
        return bool(self.types) and time.monotonic() >= self.not_before


class EventTypes:
    """Knows which types are declared, and makes EventTypes as long as Knative's features ask for it. Event loop
    only."""

    def __init__(
        self,
        api: ApiServer,
        watches: Watches,
        namespaces: Sequence[str],
        traffic: Traffic | None,
        may_write: Callable[[], bool],
    ) -> None:
        """`traffic`: None = nothing is counted, so nothing is made or compared. `may_write`: whether this process has
        the Lease."""
        self.declared: Mapping[str, tuple[str, ...]] = {}  #: see `Scan.event_types`
        self._api = api
        self._watches = watches
        self._traffic = traffic
        self._may_write = may_write
        self._lists = [Collection(path_of("EventType", namespace)) for namespace in namespaces]
        self._namespaces = frozenset(namespaces)
        self._reader: CompactedReader | None = None
        self._new: dict[Key, _Waiting] = {}  #: by channel or Broker
        self._full: dict[Key, str] = {}  #: uids of those that get no more

    @property
    def collections(self) -> Mapping[Collection, Trim]:
        """The collections to watch."""
        if self._traffic is None:
            return {}
        return {FEATURES: _trim_features, **dict.fromkeys(self._lists, _trim)}

    @property
    def waits(self) -> bool:
        """Whether there is something to write now."""
        stores = self._watches.stores(self._lists)
        is_listed = bool(stores) and all(store.synced for store in stores)
        return is_listed and any(waiting.is_due for waiting in self._new.values())

    async def follow(self) -> None:
        """Begin, or end, as the features say now."""
        features = [raw for store in self._watches.stores([FEATURES]) for raw in store.objects.values()]
        enabled = is_enabled(features[0] if features else None)
        if enabled and self._reader is None and self._traffic is not None:
            log.info("EventTypes are created, because the ConfigMap config-features asks for it")
            topic, kafka = self._traffic.topic, self._traffic.kafka
            self._reader = CompactedReader(
                topic, kafka, apply=self.take, caught_up=lambda: None, crashed=self._failed, from_end=True
            )
            self._reader.start()
        elif not enabled and self._reader is not None:
            log.info("EventTypes are no longer created, because the ConfigMap config-features asks for it")
            await self.stop()
        self._take_news()

    def _take_news(self) -> None:
        """Those whose EventTypes are gone may have others."""
        news = is_gone = False
        stores = self._watches.stores(self._lists)
        for store in stores:
            store.deleted.clear()
            for name in store.take_news():
                news, is_gone = True, is_gone or name not in store.objects
        if news:
            every = (raw["declared"] for store in stores for raw in store.objects.values())
            self.declared = by_channel(listed for listed in every if listed is not None)
        if is_gone and self._full:
            counts = self._counts()
            self._full = {key: uid for key, uid in self._full.items() if counts[uid] >= COMBINATIONS_MAX}

    def _counts(self) -> defaultdict[str, int]:
        """Returns how many EventTypes there are, by the uid of their channel or Broker."""
        counts: defaultdict[str, int] = defaultdict(int)
        for store in self._watches.stores(self._lists):
            for raw in store.objects.values():
                counts[owner_of(raw)] += 1
        return counts

    async def stop(self) -> None:
        """Stop reading."""
        reader, self._reader = self._reader, None
        self._new.clear()
        self._full.clear()
        if reader is not None:
            await reader.stop()

    def _failed(self, problem: BaseException) -> None:
        log.error("EventTypes are not created until this process starts again", reason=repr(problem))

    def take(self, records: Sequence[Record]) -> None:
        """Remember what is new in these records. Without the Lease another process does."""
        if not self._may_write():
            self._new.clear()
            return
        stores = self._watches.stores(self._lists)
        for event in filter(None, map(received, records)):
            here = "" in self._namespaces or event.name[0] in self._namespaces
            if not here or event.owner in self._full or any(event.name in store.objects for store in stores):
                continue
            types = self._new.setdefault(event.owner, _Waiting()).types
            if len(types) < COMBINATIONS_MAX:
                types[event.name] = event

    async def write(self, find: Callable[[Key], ClusterObject | None]) -> bool:
        """Create what is new, a part of it if there is much. `find`: the channel or Broker, if it is served. Returns
        whether more is due."""
        if not self.waits:
            return False
        counts = self._counts()
        part: list[tuple[_Waiting, Received, ClusterObject]] = []
        for key, waiting in list(self._new.items()):
            owner = find(key)
            if owner is None:
                del self._new[key]
                continue
            room = max(COMBINATIONS_MAX - counts[owner.uid], 0)
            if len(waiting.types) > room:
                self._full[key] = owner.uid
                log.warning(f"{'/'.join(key)} has {COMBINATIONS_MAX} EventTypes, and no more are created for it")
                waiting.types = dict(islice(waiting.types.items(), room))
            if waiting.is_due:
                part += [(waiting, new, owner) for new in islice(waiting.types.values(), PART_MAX - len(part))]

        await in_turns(lambda row: self._create(*row), part)
        self._new = {key: waiting for key, waiting in self._new.items() if waiting.types or waiting.said}
        return len(part) == PART_MAX and self.waits

    async def _create(self, waiting: _Waiting, new: Received, owner: ClusterObject) -> None:
        if not (waiting.is_due and self._may_write()):
            return
        try:
            await self._api.request("POST", path_of("EventType", new.name[0]), {}, event_type(new, owner))
        except ApiError as problem:
            if problem.reason != ALREADY_EXISTS:
                why = f"an EventType cannot be created: {problem}"
                if why != waiting.said:
                    log.warning(why, type=new.type, source=new.source)
                waiting.said, waiting.not_before = why, time.monotonic() + ABSENT_S
                if problem.reason in NOT_VALID:
                    waiting.types.pop(new.name, None)  # it must not keep the others from being tried
                return
        waiting.said = None
        waiting.types.pop(new.name, None)
