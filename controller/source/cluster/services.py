"""The Services of channels: each KafkaChannel has one as in Knative, so that its host name resolves.

    orders-kn-channel.shop.svc   --ExternalName-->   the host of the ingress (PENSTOCK_CHANNEL_SERVICES)

Its owner is the channel: Kubernetes deletes it with that. A Service that somebody else has made stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from controller.kube.api_server import MERGE, ApiServer, in_turns
from controller.kube.errors import ALREADY_EXISTS, CONFLICT, ApiError
from controller.model import PART_MAX, Trouble
from controller.source.cluster.objects import ClusterObject
from controller.source.cluster.references import SERVICE_KIND
from controller.source.cluster.store import Name, Raw, identity_of, metadata_of, name_of, uid_of, version_of
from controller.source.cluster.watcher import Collection
from controller.source.cluster.watches import Trim, Watches
from controller.timing import ABSENT_S
from knative.hosts import service_of_channel
from knative.resources.kinds import API_VERSIONS

log = structlog.get_logger(__name__)

#: The label that Knative gives to such Services. Only those that have it are watched.
ROLE = ("messaging.knative.dev/role", "kafka-channel")


@dataclass(frozen=True, slots=True)
class ServiceWrite:
    """A Service to create, or the part of one to change."""

    method: str
    path: str
    body: Raw


def name_of_service(channel: ClusterObject) -> Name:
    """Returns its namespace and name."""
    namespace, name = name_of(channel.raw)
    return namespace, service_of_channel(name)


def plan_service(channel: ClusterObject, live: Raw | None, host: str) -> ServiceWrite | None:
    """Returns what to write so that the name of a channel leads to `host`. `live`: the Service as it is, which is the
    channel's; None = it is not there."""
    namespace, name = name_of_service(channel)
    path = SERVICE_KIND.path(namespace)
    spec = {"type": "ExternalName", "externalName": host}
    if live is not None:
        metadata = {"uid": uid_of(live), "resourceVersion": version_of(live)}
        present = live.get("spec") or {}
        same = spec.items() <= present.items()
        return None if same else ServiceWrite("PATCH", f"{path}/{name}", {"metadata": metadata, "spec": spec})
    owner = {
        "apiVersion": API_VERSIONS[channel.kind],
        "kind": channel.kind,
        "name": name_of(channel.raw)[1],
        "uid": channel.uid,
        "controller": True,
    }
    labels = {"app.kubernetes.io/name": "penstock", ROLE[0]: ROLE[1]}
    mine = {"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [owner]}
    ports = [{"name": "http", "port": 80}]  # the name says to a service mesh what is spoken there
    body = {"apiVersion": "v1", "kind": "Service", "metadata": mine, "spec": {**spec, "ports": ports}}
    return ServiceWrite("POST", path, body)


def is_of_channel(live: Raw, channel: ClusterObject) -> bool:
    """Returns whether the channel owns this Service."""
    return any(owner.get("uid") == channel.uid for owner in metadata_of(live).get("ownerReferences") or ())


def trim_service(raw: Raw) -> Raw:
    """Returns what to keep of a Service of a channel."""
    spec = raw.get("spec") or {}
    kept = {key: spec.get(key) for key in ("type", "externalName")}
    return {"metadata": identity_of(raw, "ownerReferences"), "spec": kept}


@dataclass(slots=True)
class _Refusal:
    why: str
    since: float  #: Unix seconds
    not_before: float  #: on the monotonic clock


class ChannelServices:
    """Keeps the Services of channels as they should be. Event loop only."""

    def __init__(
        self, api: ApiServer, watches: Watches, namespaces: Sequence[str], host: str, may_write: Callable[[], bool]
    ) -> None:
        """`host`: where they lead; "" = there are none. `may_write`: whether this process has the Lease."""
        self._api = api
        self._watches = watches
        self._host = host
        self._may_write = may_write
        labels = f"{ROLE[0]}={ROLE[1]}"
        lists = {namespace: Collection(SERVICE_KIND.path(namespace), labels=labels) for namespace in namespaces}
        self._lists = lists if host else {}
        self._channels: dict[Name, ClusterObject] = {}  #: by the name of the Service
        self._names: dict[str, Name] = {}  #: by the uid of the channel
        self._due: set[str] = set()  #: uids of channels whose Service to look at
        self._made: dict[Name, Raw] = {}  #: Services that the watch has not brought yet
        self._refusals: dict[str, _Refusal] = {}  #: by the uid of the channel
        self._said: Mapping[str, str] = {}  #: the problems after the last `write`

    @property
    def collections(self) -> Mapping[Collection, Trim]:
        """The collections to watch."""
        return dict.fromkeys(self._lists.values(), trim_service)

    @property
    def waits(self) -> bool:
        """Whether there is something to write or to say now."""
        return any(self._is_due(uid) for uid in self._due) or self.problems != self._said

    @property
    def problems(self) -> Mapping[str, str]:
        """Why Services are not as they should be, by the uid of the channel."""
        unread = {
            listed: f"Services cannot be listed: {why}"
            for listed, why, _ in self._watches.problems()
            if listed in self._lists.values() and not all(store.synced for store in self._watches.stores([listed]))
        }
        not_read = (
            {uid: unread[self._list_of(uid)] for uid in self._names if self._list_of(uid) in unread} if unread else {}
        )
        return {**not_read, **{uid: refusal.why for uid, refusal in self._refusals.items()}}

    def troubles(self) -> list[Trouble]:
        """Returns the problems of Services for `doctor` and metrics."""
        return [
            Trouble("service", f"Service {'/'.join(self._names[uid])}", refusal.since, refusal.why)
            for uid, refusal in self._refusals.items()
        ]

    def use(self, uid: str, channel: ClusterObject | None) -> None:
        """Take a channel that is served, as it is now; None = it is none, or not any more."""
        if not self._host:
            return
        if channel is not None:
            if uid not in self._names:
                self._names[uid] = name_of_service(channel)
                self._look_at(uid)
            self._channels[self._names[uid]] = channel
        elif (name := self._names.pop(uid, None)) is not None:
            if self._channels[name].uid == uid:
                del self._channels[name]
                self._made.pop(name, None)
            self._due.discard(uid)
            self._refusals.pop(uid, None)

    def follow(self) -> None:
        """Look at the Services that have changed."""
        for store in self._watches.stores(self._lists.values()):
            store.deleted.clear()
            for name in store.take_news():
                self._made.pop(name, None)
                if name in self._channels:
                    self._look_at(self._channels[name].uid)

    def _look_at(self, uid: str) -> None:
        self._due.add(uid)
        if uid in self._refusals:
            self._refusals[uid].not_before = 0.0

    def _is_due(self, uid: str) -> bool:
        refusal = self._refusals.get(uid)
        stores = self._watches.stores([self._list_of(uid)])
        return all(store.synced for store in stores) and (refusal is None or time.monotonic() >= refusal.not_before)

    def _list_of(self, uid: str) -> Collection:
        namespace, _ = self._names[uid]
        return self._lists[namespace] if namespace in self._lists else self._lists[""]

    async def write(self) -> tuple[set[str], bool]:
        """Write what is due, a part of it if there is much. Returns the uids of channels of which something else is to
        be said now, and whether more is due."""
        due = sorted(uid for uid in self._due if self._is_due(uid))
        await in_turns(self._write, due[:PART_MAX])
        before, self._said = self._said, self.problems
        changed = {uid for uid in before.keys() | self._said.keys() if before.get(uid) != self._said.get(uid)}
        return changed, len(due) > PART_MAX

    async def _write(self, uid: str) -> None:
        if uid not in self._names:
            return  # it went while others were written
        name = self._names[uid]
        channel = self._channels[name]
        (store,) = self._watches.stores([self._list_of(uid)])
        live = store.objects.get(name) or self._made.get(name)
        if live is not None and not is_of_channel(live, channel):
            self._refuse(uid, "a Service of this name exists, and belongs to another object")
            return
        write = plan_service(channel, live, self._host)
        if write is not None and not self._may_write():
            return
        try:
            if write is not None:
                content_type = MERGE if live is not None else "application/json"
                answer = await self._api.request(write.method, write.path, {}, write.body, content_type)
                if not store.put(answer):
                    self._made[name] = trim_service(answer)
        except ApiError as problem:
            if problem.status != CONFLICT:
                cure = "; grant the verbs create and patch on services to the controller"
                self._refuse(uid, problem.why + (cure if problem.lacks_right else ""))
            elif problem.reason == ALREADY_EXISTS:
                self._refuse(
                    uid,
                    "a Service of this name exists, and does not belong to the channel; delete it if it is not needed",
                )
            return  # it is tried again: a changed Service when the watch brings it
        self._due.discard(uid)
        self._refusals.pop(uid, None)

    def _refuse(self, uid: str, why: str) -> None:
        if uid not in self._names:
            return
        before = self._refusals.get(uid)
        if before is None or before.why != why:
            log.warning("the Service of a channel cannot be written", service="/".join(self._names[uid]), reason=why)
        since = before.since if before is not None else time.time()
        self._refusals[uid] = _Refusal(why, since, time.monotonic() + ABSENT_S)
