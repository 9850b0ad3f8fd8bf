"""A directory as a source: what is in no file is unlisted, and only a person's request removes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.source.files import FileSource
from knative.contract import records
from knative.contract.leader_state import LeaderState, Removal
from tests.unit.controller.source.resource_files import write

ORDERS = records.Channel("u-orders", 1, "default", "orders", "t", "t.dlq", 1)


async def _known(source: FileSource) -> None:
    for _ in range(2):
        scan = await source.scan()
    assert scan.complete


@pytest.mark.asyncio
async def test_only_what_is_unlisted_is_removed_on_request(tmp_path: Path) -> None:
    source = FileSource(tmp_path)
    source.begin(LeaderState())
    await _known(source)
    asked = {ORDERS.uid, "nobody"}
    source.find_foreign([ORDERS], (), asked)
    assert source.released == frozenset(), "it was in a file until now"
    unlisted = replace(ORDERS, unlisted=True)
    source.find_foreign([unlisted], (), asked)
    source.find_foreign([unlisted], (), ())
    assert source.released == {ORDERS.uid}, "the request is taken back once it is read"
    source.find_foreign([ORDERS], (), ())
    assert source.released == frozenset(), "its file came back"
    source.find_foreign([unlisted], (), ())
    assert source.released == frozenset(), "and went again: that is another question"


@pytest.mark.asyncio
async def test_nothing_is_unlisted_while_a_file_has_a_problem(tmp_path: Path) -> None:
    source = FileSource(tmp_path)
    source.begin(LeaderState())
    (tmp_path / "bad.yaml").write_text("kind: [")
    for _ in range(3):
        scan = await source.scan()
        objects = source.objects([ORDERS], ())
        assert source.retained(scan.complete, [ORDERS], objects) == {ORDERS.uid}
    (tmp_path / "bad.yaml").unlink()
    scan = await source.scan()
    assert source.retained(scan.complete, [ORDERS], source.objects([ORDERS], ())) == frozenset()


@pytest.mark.asyncio
async def test_creation_whose_file_is_gone_has_vanished_since_then(tmp_path: Path) -> None:
    source = FileSource(tmp_path)
    source.begin(LeaderState())
    write(tmp_path, "a.yaml", "one")
    await _known(source)
    (created,) = source.objects((), ())
    creations = {created.uid: Removal(created.uid, "KafkaChannel", "default/one", "t", topics=("t",))}
    assert source.vanished(True, creations, 5.0) == {}
    (tmp_path / "a.yaml").unlink()
    await _known(source)
    source.objects((), ())
    assert source.vanished(True, creations, 10.0) == {created.uid: 10.0}
    assert source.vanished(True, creations, 20.0) == {created.uid: 10.0}
    assert source.retained_creations(True, creations) == {created.uid}, "it is not removed"
    group = {"s": Removal("s", "Subscription", "default/s", "t", group="kafka.s")}
    assert source.retained_creations(False, group) == {"s"}
    assert source.retained_creations(True, group) == frozenset(), "it remembers nothing"


@pytest.mark.asyncio
async def test_declared_event_types_are_in_the_scan_and_nobody_remembers_them(tmp_path: Path) -> None:
    source = FileSource(tmp_path)
    source.begin(LeaderState())
    text = """
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: NAME}
spec: {type: TYPE, reference: REFERENCE}
"""
    broker = "{apiVersion: eventing.knative.dev/v1, kind: Broker, name: main}"
    channel = "{apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, namespace: shop, name: orders}"
    types = [("a", "paid", broker), ("b", "made", broker), ("c", "paid", channel), ("d", "paid", "{kind: X, name: y}")]
    documents = (
        text.replace("NAME", name).replace("TYPE", type_).replace("REFERENCE", reference)
        for name, type_, reference in types
    )
    (tmp_path / "types.yaml").write_text("---".join(documents))

    scan = await source.scan()

    assert scan.problems == ()
    assert scan.event_types == {"default/broker:main": ("made", "paid"), "shop/orders": ("paid",)}
    source.objects((), ())
    assert source.unpublished(()) == {}
    (tmp_path / "types.yaml").unlink()
    assert (await source.scan()).event_types == {}
