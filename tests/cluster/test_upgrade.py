"""The last release beside this version, forth and back, while events come: none is refused, lost or doubled."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster
from tests.support.processes import Worker, get
from tests.support.subscriber import ScriptedSubscriber, says
from tests.support.wheel import Environment, build_former_wheel
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

_PAUSE_S = 0.02
#: The order of docs/how-to/upgrade.md. The way back is the other way round.
ORDER = ("dispatcher", "ingress", "controller")


class Prober:
    """Posts one event after the other to `port`."""

    def __init__(self, target: str, port: int) -> None:
        self.port = port
        self.stored: list[str] = []
        self.refused: list[object] = []
        self._target, self._ended = target, False

    @contextmanager
    def running(self) -> Iterator[Prober]:
        """Until the end of `with`."""
        thread = threading.Thread(target=self._run, name="prober")
        thread.start()
        try:
            yield self
        finally:
            self._ended = True
            thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if self._ended:
                return
            try:
                status: object = post(self.port, self._target, str(number)).status
            except OSError as error:
                status = error
            if status == 202:
                self.stored.append(str(number))
            else:
                self.refused.append((number, status))
            time.sleep(_PAUSE_S)


class Upgrade:
    """One process of each role, replaced one after the other."""

    def __init__(self, penstock: PenstockInCluster, stack: ExitStack, former: Environment) -> None:
        self._penstock, self._stack, self._former = penstock, stack, former
        self.workers: dict[str, Worker] = {role: self._start(role, True) for role in ORDER}

    def _start(self, role: str, is_former: bool) -> Worker:
        if is_former:
            python, env, runs = str(self._former.python), {"PYTHONPATH": ""}, self._former.version
        else:
            python, env, runs = sys.executable, {}, version("penstock")
        worker: Worker = self._stack.enter_context(self._penstock.worker(role, env, python=python))
        worker.wait_ready()
        assert f'version="{runs}"' in get(worker.admin_port, "/metrics")[1].decode()
        return worker

    def replace(self, role: str, is_former: bool, prober: Prober) -> None:
        """Start it, wait until events go through it, stop the one before."""
        worker = self._start(role, is_former)
        if role == "ingress":
            prober.port = worker.port
        self.wait_stored(prober, 10)  # what is under way to the one before is answered
        before = self.workers[role]
        assert before.terminate() == 0, before.tail()
        self.workers[role] = worker
        self.wait_stored(prober, 10)

    def wait_stored(self, prober: Prober, more: int) -> None:
        """Until this many more events are stored."""
        target = len(prober.stored) + more
        self._penstock.wait(f"{more} more events are stored", lambda: len(prober.stored) >= target)


def test_forth_and_back_while_events_come(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """After each change of the controller, a new Subscription gets all events too."""
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path / "run")
    former = Environment(tmp_path / "former", build_former_wheel(tmp_path / "wheel"))
    names = ("first", "forth", "back")
    with ScriptedSubscriber() as subscriber, ExitStack() as stack:
        uris = {name: {"uri": subscriber.script(f"/{name}", says(202))} for name in names}

        def ids(name: str) -> list[str]:
            return [request.attributes["id"] for request in subscriber.requests(f"/{name}")]

        upgrade = Upgrade(penstock, stack, former)
        penstock.channel("orders", 2)
        penstock.subscription("first", "orders", uris["first"])
        penstock.wait_ready("Subscription", "first")
        target = f"/channels/{penstock.namespace}/orders"
        with Prober(target, upgrade.workers["ingress"].port).running() as prober:
            for name, order in (("forth", ORDER), ("back", ORDER[::-1])):
                for role in order:
                    upgrade.replace(role, name == "back", prober)
                    received = len(ids("first"))
                    penstock.wait("events are delivered", lambda least=received: len(ids("first")) > least)  # type: ignore[misc]
                penstock.subscription(name, "orders", uris[name])
                penstock.wait_ready("Subscription", name)
        assert prober.refused == []
        for name in names:
            penstock.wait(f"{name} has all events", lambda name=name: set(ids(name)) >= set(prober.stored))  # type: ignore[misc]
            assert sorted(ids(name)) == sorted(prober.stored), "once each"
        for worker in upgrade.workers.values():
            assert worker.terminate() == 0, worker.tail()
