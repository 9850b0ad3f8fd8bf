"""What the objects of a cluster refer to: it is remembered for as long as somebody names it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.api_server import ApiServer
from controller.source.cluster.objects import read_object
from controller.source.cluster.referred import Referred
from controller.source.cluster.watches import Watches
from knative.resources.brokers import PARTITIONS_KEY
from knative.resources.values import ConfigMap, Resource


def _broker(name: str) -> Resource:
    """One whose ConfigMap has its name."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": "ns"}
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": f"u-{name}",
        "generation": 1,
        "resourceVersion": "1",
        "annotations": {"eventing.knative.dev/broker.class": "Kafka"},
    }
    raw = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": {"config": config}}
    resource = read_object(raw).resource
    assert resource is not None
    return resource


def _map(name: str, partitions: int, version: str) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"u-map-{name}", "resourceVersion": version}
    return {"metadata": metadata, "data": {PARTITIONS_KEY: str(partitions)}}


def _fail(problem: BaseException) -> None:
    raise problem


@pytest.mark.asyncio
async def test_config_map_that_is_named_again_is_as_it_is_now() -> None:
    """Another Broker of the namespace keeps the watch, so its news came and went meanwhile."""
    api = ApiServer()
    watches = Watches(api, lambda: None, _fail)
    referred = Referred(api, watches, ("",))

    def partitions() -> dict[str, str]:
        referred.news()
        maps = [config_map.resource for config_map in referred.config_maps()]
        return {entry.name: entry.data[PARTITIONS_KEY] for entry in maps if isinstance(entry, ConfigMap)}

    for name in ("one", "other"):
        referred.use(f"u-{name}", _broker(name))
    await referred.need({})
    (store,) = watches.stores(referred._config_map_lists())  # its watcher has not begun
    store.add_page({"items": [_map("one", 1, "5"), _map("other", 1, "6")], "metadata": {"resourceVersion": "7"}})
    assert partitions() == {"one": "1", "other": "1"}

    referred.use("u-one", None)
    store.apply({"type": "MODIFIED", "object": _map("one", 3, "8")})
    assert partitions() == {"other": "1"}
    referred.use("u-one", _broker("one"))
    assert partitions() == {"one": "3", "other": "1"}
    await watches.stop()
