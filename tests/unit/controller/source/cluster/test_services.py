"""The Services of channels: which are created, which are changed, and which are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.api_server import AT_ONCE, ApiServer
from controller.kube.errors import ApiError
from controller.model import PART_MAX
from controller.source.cluster.objects import FINALIZER, ClusterObject, read_object
from controller.source.cluster.services import ChannelServices, is_of_channel, plan_service, trim_service
from controller.source.cluster.table import Table
from controller.source.cluster.watches import Watches

HOST = "ingress.penstock.svc.cluster.local"
PATH = "/api/v1/namespaces/shop/services"


def channel(uid: str = "u1", name: str = "orders") -> ClusterObject:
    metadata = {"namespace": "shop", "name": name, "uid": uid, "generation": 1, "resourceVersion": "5"}
    return read_object({"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata})


def service(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "orders-kn-channel", "uid": "s1", "resourceVersion": "7"}
    document = {"metadata": {**metadata, "ownerReferences": [{"uid": "u1"}], "managedFields": []}, "spec": spec}
    return dict(trim_service(document))


def test_new_service_is_the_channels_and_leads_to_the_ingress() -> None:
    write = plan_service(channel(), None, HOST)
    assert write is not None
    assert (write.method, write.path) == ("POST", PATH)
    assert write.body["metadata"]["name"] == "orders-kn-channel"
    assert write.body["metadata"]["labels"]["messaging.knative.dev/role"] == "kafka-channel"
    assert write.body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "messaging.knative.dev/v1beta1",
            "kind": "KafkaChannel",
            "name": "orders",
            "uid": "u1",
            "controller": True,
        }
    ]
    assert (write.body["spec"]["type"], write.body["spec"]["externalName"]) == ("ExternalName", HOST)
    assert is_of_channel(write.body, channel())
    assert plan_service(channel(), trim_service(write.body), HOST) is None, "nothing is left to do"


@pytest.mark.parametrize(
    ("spec", "is_changed"),
    [
        ({"type": "ExternalName", "externalName": HOST, "ports": [{"port": 8080}]}, False),
        ({"type": "ExternalName", "externalName": "kafka-channel-ingress.knative-eventing.svc.cluster.local"}, True),
        ({"type": "ClusterIP", "clusterIP": "10.0.0.7", "selector": {"app": "x"}}, True),
        ({}, True),
    ],
)
def test_service_of_the_channel_that_leads_elsewhere_is_changed(spec: dict[str, Any], is_changed: bool) -> None:
    """Such as the one that Knative's own KafkaChannel has left, or somebody has edited."""
    write = plan_service(channel(), service(**spec), HOST)
    assert (write is not None) is is_changed
    if write is not None:
        assert (write.method, write.path) == ("PATCH", f"{PATH}/orders-kn-channel")
        assert write.body["spec"] == {"type": "ExternalName", "externalName": HOST}
        assert write.body["metadata"] == {"uid": "s1", "resourceVersion": "7"}, "no other one, and no newer one"


def test_service_of_a_former_channel_of_the_name_is_not_the_channels() -> None:
    assert is_of_channel(service(), channel())
    assert not is_of_channel(service(), channel("u2"))
    assert not is_of_channel({"metadata": {}}, channel())


class Server(ApiServer):
    """Answers each write as it is told, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: ApiError | None = None
        self.written: list[str] = []
        self.answered = 0

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> dict[str, Any]:
        self.written.append(path)
        await asyncio.sleep(0)
        self.answered += 1
        if self.problem is not None:
            raise self.problem
        return service()


def _fail(problem: BaseException) -> None:
    raise problem


@asynccontextmanager
async def services(
    server: Server, count: int = 1, may_write: Callable[[], bool] = lambda: True, synced: bool = True
) -> AsyncIterator[tuple[ChannelServices, Watches]]:
    """Of so many channels, without a watcher that asks."""
    watches = Watches(server, lambda: None, _fail)
    made = ChannelServices(server, watches, ("",), HOST, may_write)
    watches.need(made.collections)
    for task in watches._tasks.values():
        task.cancel()
    (store,) = watches.stores(made.collections)
    if synced:
        store.add_page({"items": [], "metadata": {"resourceVersion": "1"}})
    for number in range(count):
        made.use(f"u{number}", channel(f"u{number}", f"orders-{number}"))
    try:
        yield made, watches
    finally:
        await watches.stop()


@pytest.mark.asyncio
async def test_who_has_lost_the_lease_writes_nothing_more() -> None:
    """Also not what waited for its turn when it was lost."""
    server = Server()
    async with services(server, 40, lambda: server.answered == 0) as (made, _):
        await made.write()
        assert len(server.written) == AT_ONCE


@pytest.mark.asyncio
async def test_many_are_written_in_parts() -> None:
    server = Server()
    async with services(server, PART_MAX + 1) as (made, _):
        assert await made.write() == (set(), True)
        assert len(server.written) == PART_MAX
        assert await made.write() == (set(), False)
        assert len(set(server.written)) == 1
        assert len(server.written) == PART_MAX + 1
        assert not made.waits


RBAC = (
    'services is forbidden: User "penstock" cannot create resource "services" in API group "" in the namespace "shop"'
)
QUOTA = 'services "orders-0-kn-channel" is forbidden: exceeded quota: q, requested: services=1, used: services=1'


@pytest.mark.parametrize(
    ("status", "why", "reason", "problem"),
    [
        (
            409,
            "it exists",
            "AlreadyExists",
            "a Service of this name exists, and does not belong to the channel; delete it if it is not needed",
        ),
        (409, "the quota was changed by another request", "Conflict", None),
        (403, RBAC, "Forbidden", f"{RBAC}; grant the verbs create and patch on services to the controller"),
        (403, QUOTA, "Forbidden", QUOTA),
    ],
)
@pytest.mark.asyncio
async def test_what_is_advised_fits_the_reason(status: int, why: str, reason: str, problem: str | None) -> None:
    server = Server()
    server.problem = ApiError(status, "POST", why, reason=reason)
    async with services(server) as (made, _):
        changed, _ = await made.write()
        assert (made.problems.get("u0"), changed) == (problem, {"u0"} if problem else set())
        assert made.waits is (problem is None), "a race is tried again soon"


@pytest.mark.asyncio
async def test_services_that_cannot_be_listed_are_a_problem_of_each_channel() -> None:
    async with services(Server(), 2, synced=False) as (made, watches):
        (watcher,) = watches._watchers.values()
        watcher.problem = "services is forbidden"
        assert [made.waits] == [True], "it is to be said"
        assert await made.write() == ({"u0", "u1"}, False)
        assert made.problems == dict.fromkeys(("u0", "u1"), "Services cannot be listed: services is forbidden")
        assert [made.waits] == [False]


@pytest.mark.parametrize("partitions", [1, 0])
@pytest.mark.parametrize("finalizers", [[], [FINALIZER]])
def test_channel_that_is_not_valid_any_more_keeps_its_service(partitions: int, finalizers: list[str]) -> None:
    """It is served as before, so its host name is, too."""
    raw = {**channel().raw, "spec": {"numPartitions": partitions}}
    raw["metadata"] = {**raw["metadata"], "finalizers": finalizers}
    table = Table(False, synced=True)
    table.read([raw], ())
    assert table.is_served_channel(read_object(raw)) is bool(finalizers)
