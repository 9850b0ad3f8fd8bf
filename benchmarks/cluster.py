"""Measures a controller with a real Kubernetes API server, by the number of objects. Prints facts, without targets.

    python -m benchmarks.cluster [--objects 1000] [--changes 20] [--idle 30] [--kind Subscription] [--role all]

Four runs: Subscriptions of one KafkaChannel, until a controller alone has added them; Subscriptions of one,
and Triggers of one Broker, until a worker in the role all serves them; Triggers of one Broker until a dispatcher beside
a controller serves them. They are created all at once, rest, and are changed one after the other.
CPU and memory are those of the process with the controller. Needs Go, for the API server.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kube.audit import Request, service_account
from tests.support.kube.cluster import KubeCluster, cluster_with_kafka
from tests.support.kube.penstock import CHANNELS, EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.processes import Worker, wait_until

_LIMIT_S = 1800.0
_POLL_S = 0.02
_LIST_POLL_S = 3.0  #: each look is a list of all objects, which costs the API server more than any controller
_URI = "http://127.0.0.1:9/"


@dataclass(frozen=True, slots=True)
class Size:
    """How many objects there are, how many of them change, and for how many seconds all rest."""

    objects: int
    changes: int
    idle: float


@dataclass(frozen=True, slots=True)
class Scene:
    """What is created, and the condition that says that it is done."""

    kind: str
    role: str
    done: str
    dispatcher: bool = False  #: in a process beside that of `role`


SCENES = (
    Scene("Subscription", "controller", "AddedToChannel"),
    Scene("Subscription", "all", "Ready"),
    Scene("Trigger", "all", "Ready"),
    Scene("Trigger", "controller", "Ready", dispatcher=True),
)


def measure(kube: KubeCluster, bootstrap: str, folder: Path, scene: Scene, size: Size) -> dict[str, Any]:
    """Measures one run."""
    penstock = PenstockInCluster(kube, bootstrap, folder)
    env = {"PENSTOCK_INGRESS_URL": "http://ingress.test", "PENSTOCK_SUBSCRIPTIONS": "own"}
    names = [f"n{number:04}" for number in range(size.objects)]
    with ExitStack() as stack:
        worker = stack.enter_context(penstock.worker(scene.role, env))
        worker.wait_ready()
        _first(penstock, scene)
        dispatcher = stack.enter_context(penstock.worker("dispatcher", env)) if scene.dispatcher else None
        if dispatcher is not None:
            dispatcher.wait_ready()
        empty = dispatcher.rss_bytes() if dispatcher is not None else 0
        began_s, began_cpu_s = time.monotonic(), worker.cpu_s()
        for name in names:
            _create(penstock, scene, name)
        sent_s = time.monotonic() - began_s
        wait_until("all are done", lambda: _done(penstock, scene) == len(names), _LIMIT_S, poll_s=_LIST_POLL_S)
        figures: dict[str, Any] = {
            "kind": scene.kind,
            "role": scene.role,
            "objects": len(names),
            "created_s": round(time.monotonic() - began_s, 1),
            "of_which_sending_s": round(sent_s, 1),
            "created_cpu_s": round(worker.cpu_s() - began_cpu_s, 1),
            "created_requests_each": round(len(_requests(kube, penstock)) / len(names), 2),
        }
        _wait("nothing is written any more", lambda: _is_quiet(kube, penstock))
        figures |= _idle(kube, penstock, worker, size.idle)
        figures |= _changes(kube, penstock, worker, scene, names[:: max(1, len(names) // size.changes)][: size.changes])
        figures["rss_mb"] = round(worker.rss_bytes() / 1e6, 1)
        figures["most_rss_mb"] = round(worker.most_rss_bytes() / 1e6, 1)
        if dispatcher is not None:
            figures["dispatcher_kb_each"] = round((dispatcher.rss_bytes() - empty) / 1e3 / len(names), 1)
    return figures


def _first(penstock: PenstockInCluster, scene: Scene) -> None:
    if scene.kind == "Trigger":
        penstock.create(EVENTING, "Broker", "main", {}, annotations=KAFKA_CLASS)
        _wait("the Broker is published", lambda: penstock.is_published("main", "Broker"))
    else:
        penstock.create(CHANNELS, "KafkaChannel", "orders", {})
        _wait("the channel is published", lambda: penstock.is_published("orders"))


def _create(penstock: PenstockInCluster, scene: Scene, name: str) -> None:
    if scene.kind == "Trigger":
        penstock.create(EVENTING, "Trigger", name, {"broker": "main", "subscriber": {"uri": _URI}})
    else:
        penstock.subscription(name, "orders", {"uri": _URI})


def _done(penstock: PenstockInCluster, scene: Scene) -> int:
    """Returns how many are done, by one list."""
    items = penstock.kube.admin.get(penstock.path(scene.kind)).must()["items"]
    conditions = [
        {condition["type"]: condition["status"] for condition in item.get("status", {}).get("conditions", ())}
        for item in items
    ]
    return sum(statuses.get(scene.done) == "True" for statuses in conditions)


def _idle(kube: KubeCluster, penstock: PenstockInCluster, worker: Worker, seconds: float) -> dict[str, Any]:
    before, cpu_s, began_s = len(_requests(kube, penstock)), worker.cpu_s(), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    return {
        "idle_cpu_percent": round(100 * (worker.cpu_s() - cpu_s) / took_s, 2),
        "idle_requests_per_min": round(60 * (len(_requests(kube, penstock)) - before) / took_s, 1),
    }


def _changes(
    kube: KubeCluster, penstock: PenstockInCluster, worker: Worker, scene: Scene, names: list[str]
) -> dict[str, Any]:
    """Each has another subscriber, one after the other. CPU until it is done."""
    times_s, cpu_s, requests = [], [], 0
    for name in names:
        before, began_s, began_cpu_s = len(_writes(kube, penstock)), time.monotonic(), worker.cpu_s()
        change = {"spec": {"subscriber": {"uri": f"{_URI}{name}"}}}
        penstock.kube.admin.merge(penstock.path(scene.kind, name), change).must()
        _wait(f"{name} is done", lambda name=name: penstock.condition(scene.kind, name, scene.done)[0] == "True")  # type: ignore[misc]
        times_s.append(time.monotonic() - began_s)
        cpu_s.append(worker.cpu_s() - began_cpu_s)
        _wait("nothing is written any more", lambda: _is_quiet(kube, penstock))
        requests += len(_writes(kube, penstock)) - before
    return {
        "change_median_s": round(statistics.median(times_s), 2),
        "change_max_s": round(max(times_s), 2),
        "change_cpu_ms": round(1000 * statistics.median(cpu_s)),
        "change_requests_each": round(requests / len(names), 2),
    }


def _requests(kube: KubeCluster, penstock: PenstockInCluster) -> list[Request]:
    """Returns those of the controller, without those that it makes in any case: its Lease."""
    user = service_account(penstock.namespace, "controller")
    return [request for request in kube.requests() if request.user == user and request.resource != "leases"]


def _writes(kube: KubeCluster, penstock: PenstockInCluster) -> list[Request]:
    return [request for request in _requests(kube, penstock) if request.verb not in ("get", "list", "watch")]


def _is_quiet(kube: KubeCluster, penstock: PenstockInCluster) -> bool:
    before = len(_writes(kube, penstock))
    time.sleep(1.0)
    return len(_writes(kube, penstock)) == before


def _wait(what: str, holds: Callable[[], bool]) -> None:
    wait_until(what, holds, _LIMIT_S, poll_s=_POLL_S)


def main() -> None:
    """Runs the command line; prints one JSON object for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1000, help="so many of each kind")
    parser.add_argument("--changes", type=int, default=20, help="so many of them are changed")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds at rest")
    kinds = list(dict.fromkeys(scene.kind for scene in SCENES))
    parser.add_argument("--kind", choices=kinds, action="append", help="only the runs with this kind")
    parser.add_argument("--role", choices=("all", "controller"), help="only the runs whose controller has this role")
    given = parser.parse_args()
    size = Size(given.objects, given.changes, given.idle)
    with cluster_with_kafka() as (kube, kafka, folder):
        for scene in SCENES:
            if (given.kind and scene.kind not in given.kind) or given.role not in (None, scene.role):
                continue
            figures = measure(kube, kafka.bootstrap, folder / f"{scene.kind}-{scene.role}", scene, size)
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
