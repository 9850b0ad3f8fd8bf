"""What the controller decides about when something changes between two looks at its source."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from controller.kube.api_server import ApiServer
from controller.place import Place
from controller.service import Controller
from controller.source.cluster.objects import FINALIZER
from controller.source.cluster.source import KINDS, ClusterSource
from controller.source.cluster.watcher import Watcher
from controller.status.state_directory import StateDirectory
from controller.term import Term
from knative.contract import kafka_names
from knative.resources.values import KafkaChannel
from tables.contract_table import ContractTable
from tables.status_table import StatusTable
from tests.support.fakes import MemoryProduce
from tests.unit.controller.worlds import CONFIG


def _channel(name: str, version: str, partitions: int = 1) -> dict[str, Any]:
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": f"u-{name}",
        "generation": 1,
        "resourceVersion": version,
        "finalizers": [FINALIZER],
    }
    spec = {"numPartitions": partitions}
    return {
        "apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata, "spec": spec
    }  # fmt: skip


def _fail(problem: BaseException) -> None:
    raise problem


@pytest.mark.asyncio
async def test_what_changes_together_with_everything_is_decided_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list is refused while the controller prepares a decision, after it has collected what has changed."""
    monkeypatch.setattr(Watcher, "run", lambda _: asyncio.sleep(3_600))  # the test says what it hears
    client = {"bootstrap.servers": "127.0.0.1:1"}
    contract = ContractTable(CONFIG.contract_topic, client, _fail)
    status = StatusTable(kafka_names.status_topic(CONFIG.instance), client, _fail)
    source = ClusterSource(ApiServer(), (), "own", _fail, lambda: True)
    place = Place(source, StateDirectory(tmp_path))
    view = Controller(CONFIG, contract, status, MemoryProduce(), _fail, place)._view
    await source.start(lambda: None)
    stores = {kind: store for kind in KINDS for store in source._stores(kind)}
    for kind, store in stores.items():
        items = [_channel("before", "1")] if kind == "KafkaChannel" else []
        store.add_page({"items": items, "metadata": {"resourceVersion": "1"}})

    term = Term(1, scan=await source.scan())
    await view.collect(term, time.monotonic(), contract=False, status=False)
    view.take_apart(term)
    decided = _decide(view, term)
    assert decided == {"u-before": 1}

    stores["KafkaChannel"].apply({"type": "MODIFIED", "object": _channel("before", "2", 2)})
    stores["KafkaChannel"].apply({"type": "ADDED", "object": _channel("new", "3", 3)})
    watchers = source._watches._watchers
    (triggers,) = (watcher for listed, watcher in watchers.items() if str(listed).endswith("/triggers"))
    triggers.problem, triggers.forbidden = "triggers is forbidden", True
    await source.scan()
    decided |= _decide(view, term)
    await view.collect(term, time.monotonic(), contract=False, status=False)
    if term.parts is None:
        view.take_apart(term)
    decided |= _decide(view, term)
    assert decided == {"u-before": 2, "u-new": 3}
    await source.stop()


def _decide(view: Any, term: Term) -> dict[str, int]:
    """Decide about all that is due; the channels that were decided about, with their partitions."""
    decided: dict[str, int] = {}
    while True:
        world = view.world(term)
        for item in world.objects:
            if item.uid in term.focus and isinstance(item.resource, KafkaChannel):
                decided[item.uid] = item.resource.partitions
        term.focus = set()
        if term.is_done:
            return decided
