"""What a cluster's source remembers of objects that are gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.kube.api_server import ApiServer
from controller.source.cluster.source import KINDS, ClusterSource
from knative.contract.leader_state import LeaderState, Removal

CREATED = {"u": Removal("u", "KafkaChannel", "ns/one", "t", topics=("t", "t.dlq"))}


def _channel(version: str) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": "one", "uid": "u", "generation": 1, "resourceVersion": version}
    return {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata}


def _fail(problem: BaseException) -> None:
    raise problem


@pytest.mark.asyncio
async def test_object_has_vanished_since_it_was_first_missed() -> None:
    source = ClusterSource(ApiServer(), ("ns",), "own", _fail, lambda: False)
    await source.start(lambda: None)  # the watchers have not begun
    for kind in KINDS:
        for store in source._stores(kind):
            store.add_page({"items": [], "metadata": {"resourceVersion": "1"}})
    assert source.vanished(True, CREATED, 10.0) == {}, "the lists were not looked at yet"
    await source.scan()
    assert source.vanished(False, CREATED, 10.0) == {}
    assert [source.vanished(True, CREATED, now) for now in (20.0, 30.0)] == [{"u": 20.0}] * 2
    assert source.vanished(True, {}, 40.0) == {}
    assert source.vanished(True, CREATED, 50.0) == {"u": 50.0}
    source.begin(LeaderState())
    assert source.vanished(True, CREATED, 60.0) == {"u": 60.0}, "a new leader looks for itself"
    await source.stop()


@pytest.mark.asyncio
async def test_deletion_is_remembered_until_all_that_was_created_is_gone() -> None:
    source = ClusterSource(ApiServer(), (), "own", _fail, lambda: False)
    await source.start(lambda: None)  # the watchers have not begun
    stores = {kind: store for kind in KINDS for store in source._stores(kind)}
    for kind, store in stores.items():
        items = [_channel("1")] if kind == "KafkaChannel" else []
        store.add_page({"items": items, "metadata": {"resourceVersion": "1"}})
    await source.scan()
    assert source.retained_creations(True, CREATED) == {"u"}
    stores["KafkaChannel"].apply({"type": "DELETED", "object": _channel("2")})
    for _ in range(2):
        await source.scan()
        source.find_foreign([], (), ())
        assert source.retained_creations(True, CREATED) == frozenset()
        await source.release(frozenset(CREATED))
    await source.release(frozenset())
    assert stores["KafkaChannel"].deleted == set()
    await source.stop()


@pytest.mark.asyncio
async def test_others_have_their_turn_while_many_objects_are_read() -> None:
    """Each may have filters that take long to parse."""
    source = ClusterSource(ApiServer(), (), "own", _fail, lambda: False)
    await source.start(lambda: None)  # the watchers have not begun
    count = 50
    items = [_channel("1") for _ in range(count)]
    for number, item in enumerate(items):
        item["metadata"] |= {"name": f"c{number}", "uid": f"u{number}"}
    for kind in KINDS:
        for store in source._stores(kind):
            store.add_page({"items": items if kind == "KafkaChannel" else [], "metadata": {"resourceVersion": "1"}})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await source.scan()
    task.cancel()
    assert len(source._table.present()) == count
    assert turns >= count
    await source.stop()


def _reset(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"u-{name}", "generation": 1, "resourceVersion": "1"}
    ref = {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "name": "s"}
    return {
        "apiVersion": "kafka.eventing.knative.dev/v1alpha1",
        "kind": "ResetOffset",
        "metadata": metadata,
        "spec": {"offset": {"time": "earliest"}, "ref": ref},
        "status": {"observedGeneration": 1, "conditions": list(conditions)} if conditions else {},
    }


@pytest.mark.asyncio
async def test_reset_offset_that_is_not_over_says_that_kafka_is_away() -> None:
    source = ClusterSource(ApiServer(), (), "own", _fail, lambda: False)
    await source.start(lambda: None)  # the watchers have not begun
    over = {"type": "Ready", "status": "True", "reason": "OffsetsMoved"}
    busy = {"type": "Ready", "status": "Unknown", "reason": "Stopping"}
    items = [_reset("new"), _reset("over", over), _reset("busy", busy)]
    for kind in KINDS:
        for store in source._stores(kind):
            store.add_page({"items": items if kind == "ResetOffset" else [], "metadata": {"resourceVersion": "1"}})
    await source.scan()
    writes = source.outage_statuses("kafka:9092: connection refused", ())
    assert sorted(write.name for write in writes) == ["busy", "new"]
    assert {condition.reason for write in writes for condition in write.conditions} == {"KafkaUnavailable"}
    await source.stop()
