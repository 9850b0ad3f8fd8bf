"""EventTypes: when they are wanted, what of the traffic makes one, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.api_server import AT_ONCE, ApiServer
from controller.kube.errors import ApiError
from controller.model import PART_MAX, Key
from controller.source.cluster import event_types as module
from controller.source.cluster.event_types import (
    EventTypes,
    Received,
    Traffic,
    declared,
    event_type,
    is_enabled,
    owner_of,
    received,
)
from controller.source.cluster.objects import ClusterObject, read_object
from controller.source.cluster.store import ObjectStore
from controller.source.cluster.watches import Watches
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, SETTLED, Delta, encode
from tables.kafka.compacted_topic import Record

BROKER = ("Broker", "shop", "main")
CHANNEL = ("KafkaChannel", "shop", "orders")


@pytest.mark.parametrize(
    ("features", "enabled"),
    [
        (None, False),
        ({}, False),
        ({"data": None}, False),
        ({"data": {"eventtype-auto-create": "disabled"}}, False),
        ({"data": {"eventtype-auto-create": "enabled"}}, True),
        ({"data": {"eventtype-auto-create": "Enabled"}}, True),
        ({"data": {"other": "enabled"}}, False),
    ],
)
def test_features_of_knative_decide_about_event_types(features: dict[str, Any] | None, enabled: bool) -> None:
    assert is_enabled(features) is enabled


def delta(**fields: Any) -> Record:
    given = {"kind": ACCEPTED, "channel": "orders", "type": "created", "source": "/shop", **fields}
    made = Delta(by="w", number=1, at=1, namespace="shop", counts=Counts(events=1), **given)
    return Record(b"k", encode(made))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (delta(), Received(CHANNEL, "created", "/shop")),
        (delta(channel="broker:main"), Received(BROKER, "created", "/shop")),
        (delta(kind=SETTLED, subscription="billing"), None),
        (delta(type="", source=""), None),
        (Record(b"k", b"no JSON"), None),
        (Record(b"k", None), None),
    ],
)
def test_what_was_stored_has_a_type(record: Record, expected: Received | None) -> None:
    assert received(record) == expected


def broker() -> Any:
    annotations = {"eventing.knative.dev/broker.class": "Kafka"}
    metadata = {"namespace": "shop", "name": "main", "uid": "b1", "annotations": annotations}
    return read_object({"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": {}})


def test_event_type_says_what_comes_and_where_and_goes_with_that() -> None:
    event = Received(BROKER, "created", "/shop")
    document = event_type(event, broker())
    namespace, name = event.name
    assert (document["metadata"]["namespace"], document["metadata"]["name"]) == (namespace, name)
    reference = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "namespace": "shop", "name": "main"}
    assert document["spec"]["reference"] == reference
    assert (document["spec"]["type"], document["spec"]["source"]) == ("created", "/shop")
    assert owner_of(document) == "b1"


def written(type_: str = "paid", reference: Any = None, owner: Any = None, **spec: Any) -> dict[str, Any]:
    """An EventType as the API server has it."""
    metadata = {"namespace": "shop", "name": f"e-{type_}", "uid": f"u-{type_}", "resourceVersion": "7"}
    owners = {"ownerReferences": [owner]} if owner else {}
    where = {"reference": reference} if reference else {}
    return {"metadata": {**metadata, **owners}, "spec": {"type": type_, **where, **spec}}


MAIN = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "main"}
ORDERS = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "orders"}
PING = {"apiVersion": "sources.knative.dev/v1", "kind": "PingSource", "name": "main", "uid": "p"}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (written(reference=MAIN), (BROKER, "paid")),
        (written(reference=ORDERS), (CHANNEL, "paid")),
        (written(reference={**MAIN, "namespace": "other"}), (("Broker", "other", "main"), "paid")),
        (written(broker="main"), (BROKER, "paid")),
        (written(reference=MAIN, owner=PING), (BROKER, "paid")),
        (written(reference=MAIN, owner={**MAIN, "uid": "b1"}), None),
        (event_type(Received(BROKER, "paid", "/shop"), broker()), None),
        (written(), None),
        (written(reference={"kind": "Service", "name": "x"}), None),
        ({"metadata": {"namespace": "shop", "name": "x"}}, None),
    ],
    ids=["a Broker", "a Channel", "elsewhere", "by name", "of a source", "Knative made it", "we made it", "of nothing",
         "of something else", "without a spec"],
)  # fmt: skip
def test_what_was_made_of_what_comes_declares_nothing(raw: dict[str, Any], says: object) -> None:
    assert declared(raw) == says


@pytest.mark.asyncio
async def test_what_is_declared_is_known_without_the_flag_and_follows_the_cluster() -> None:
    async with running() as types:
        assert set(types.made._lists) < types.made.collections.keys()
        types.store.apply({"type": "ADDED", "object": written(reference=MAIN)})
        await types.made.follow()
        assert types.made.declared == {"shop/broker:main": ("paid",)}
        gone = written(reference=MAIN)
        gone["metadata"]["resourceVersion"] = "8"
        types.store.apply({"type": "DELETED", "object": gone})
        await types.made.follow()
        assert types.made.declared == {}


def test_each_type_and_source_has_a_name_of_its_own() -> None:
    names = {
        Received(owner, type_, source).name
        for owner in (BROKER, CHANNEL, ("Broker", "shop", "x" * 253))
        for type_ in ("a", "b")
        for source in ("/a", "/b")
    }
    assert len(names) == 12
    assert max(len(name) for _, name in names) <= 253


@pytest.mark.parametrize(
    "source",
    ["/shop", "shop", "https://shop.example:8443/a:b?c=d#e", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
     "mailto:a@shop.example", "//shop.example", "//shop.example/a", "?q", "#f", "a/b;c=d", "/%C3%A4", "file:///a"],
)  # fmt: skip
def test_source_that_every_parser_takes_is_there(source: str) -> None:
    assert event_type(Received(BROKER, "a", source), broker())["spec"]["source"] == source


@pytest.mark.parametrize(
    "source",
    ["", ":a", "1a:b", "http://[::1", "http://a:b/", "http://a:b@c/", "//a:99999999/", "/%zz", "/a b", "/ä", "a\nb"],
)
def test_source_that_a_parser_might_refuse_is_left_out(source: str) -> None:
    """One that Go cannot parse would stop Knative's core from reading any EventType."""
    assert "source" not in event_type(Received(BROKER, "a", source), broker())["spec"]


def test_what_was_delivered_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a record for each subscription, and the event loop is that of the controller."""
    decoded: list[bytes | None] = []
    monkeypatch.setattr(module, "decode", decoded.append)
    assert received(delta(kind=SETTLED, subscription="billing")) is None
    assert decoded == []


class Server(ApiServer):
    """Answers by the name of the channel, and remembers the types that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[str, ApiError] = {}
        self.created: list[str] = []
        self.answered = 0

    async def request(
        self, method: str, path: str, params: Any = None, body: Mapping[str, Any] | None = None, *_: Any
    ) -> dict[str, Any]:
        assert body is not None
        self.created.append(body["spec"]["type"])
        await asyncio.sleep(0)
        self.answered += 1
        problem = self.problems.get(body["spec"]["reference"]["name"])
        if problem is not None:
            raise problem
        return {}


class Running:
    """Makes EventTypes, without a watcher that asks and without a reader of the topic."""

    def __init__(self, server: Server, watches: Watches) -> None:
        self.server, self.has_lease = server, True
        self.loses_lease = False  #: with the first answer
        self.made = EventTypes(server, watches, ("",), Traffic({}, "t"), self.may_write)
        watches.need(dict.fromkeys(self.made._lists, module._trim))
        for task in watches._tasks.values():
            task.cancel()
        self.store: ObjectStore
        (self.store,) = watches.stores(self.made._lists)
        self.store.add_page({"items": [], "metadata": {"resourceVersion": "1"}})

    def may_write(self) -> bool:
        return self.has_lease and not (self.loses_lease and self.server.answered)

    def take(self, *types: str, channel: str = "orders") -> None:
        self.made.take([delta(channel=channel, type=type_) for type_ in types])

    async def write(self) -> bool:
        return await self.made.write(channel_of)


def channel_of(key: Key) -> ClusterObject:
    """Every channel is there."""
    metadata = {"namespace": key[1], "name": key[2], "uid": f"u-{key[2]}"}
    return read_object({"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata})


def there(number: int) -> dict[str, Any]:
    """An EventType of the channel orders."""
    metadata = {"namespace": "shop", "name": f"et-{number}", "uid": f"e{number}", "resourceVersion": str(number + 2)}
    return {"metadata": {**metadata, "ownerReferences": [{"uid": "u-orders"}]}}


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    def fail(problem: BaseException) -> None:
        raise problem

    server = Server()
    watches = Watches(server, lambda: None, fail)
    try:
        yield Running(server, watches)
    finally:
        await watches.stop()


@pytest.mark.asyncio
async def test_only_who_has_the_lease_takes_and_writes() -> None:
    async with running() as types:
        types.has_lease = False
        types.take("a")
        assert not types.made.waits
        types.has_lease = True
        types.take("b")
        types.has_lease = False
        await types.write()
        assert types.server.created == []
        types.take("c")  # a new leader finds them again
        types.has_lease = True
        assert not await types.write()
        assert types.server.created == []


@pytest.mark.asyncio
async def test_who_has_lost_the_lease_writes_nothing_more() -> None:
    """Also not what waited for its turn when it was lost."""
    async with running() as types:
        types.take(*(f"t{number}" for number in range(40)))
        types.loses_lease = True
        await types.write()
        assert len(types.server.created) == AT_ONCE


@pytest.mark.asyncio
async def test_many_are_written_in_parts() -> None:
    async with running() as types:
        types.take(*(f"t{number}" for number in range(PART_MAX + 1)))
        assert await types.write()
        assert len(types.server.created) == PART_MAX
        assert not await types.write()
        assert sorted(types.server.created) == sorted(f"t{number}" for number in range(PART_MAX + 1))


@pytest.mark.asyncio
async def test_refusal_delays_only_its_channel() -> None:
    async with running() as types:
        types.server.problems["orders"] = ApiError(403, "POST", "exceeded quota", reason="Forbidden")
        types.take("a")
        await types.write()
        types.take("b", channel="refunds")
        assert types.made.waits
        await types.write()
        assert types.server.created == ["a", "b"]
        assert not types.made.waits


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        (ApiError(409, "POST", "it exists", reason="AlreadyExists"), []),
        (ApiError(409, "POST", "the quota was changed", reason="Conflict"), ["a"]),
        (ApiError(422, "POST", "not valid", reason="Invalid"), []),
        (ApiError(0, "POST", "no answer"), ["a"]),
    ],
)
@pytest.mark.asyncio
async def test_what_is_tried_again(problem: ApiError, again: list[str]) -> None:
    async with running() as types:
        types.server.problems["orders"] = problem
        types.take("a")
        await types.write()
        assert [new.type for waiting in types.made._new.values() for new in waiting.types.values()] == again


@pytest.mark.asyncio
async def test_channel_that_is_full_waits_for_nothing() -> None:
    async with running() as types:
        items = [there(number) for number in range(COMBINATIONS_MAX)]
        types.store.add_page({"items": items, "metadata": {"resourceVersion": "1000"}})
        for type_ in ("a", "b"):
            types.take(type_)
            await types.write()
            assert types.server.created == []
        types.take("c")
        assert not types.made.waits
        types.store.apply(
            {"type": "DELETED", "object": {**there(0), "metadata": {**there(0)["metadata"], "resourceVersion": "1001"}}}
        )
        await types.made.follow()
        types.take("d", channel="orders")
        await types.write()
        assert types.server.created == ["d"]
