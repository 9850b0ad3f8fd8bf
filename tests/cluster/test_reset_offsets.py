"""ResetOffsets of a cluster: carried out once with the offsets in the status, or refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import LIMIT_S, MESSAGING, RESETS, PenstockInCluster
from tests.support.processes import wait_until
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

EVENTS = 5


def _reset(penstock: PenstockInCluster, name: str, to: str, ref: str = "billing") -> Any:
    where = {"apiVersion": MESSAGING, "kind": "Subscription", "name": ref}
    return penstock.create(RESETS, "ResetOffset", name, {"offset": {"time": to}, "ref": where})


def test_carried_out_once_or_refused(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    with ScriptedSubscriber() as subscriber:
        uri = subscriber.script("/billing", says(200))
        penstock.channel("orders")
        made = penstock.subscription("billing", "orders", {"uri": uri})
        with penstock.worker() as worker:
            worker.wait_ready()
            penstock.wait_ready("Subscription", "billing")
            path = f"/channels/{penstock.namespace}/orders"
            assert {post(worker.port, path, str(number), b"x").status for number in range(EVENTS)} == {202}
            wait_until("delivered", lambda: len(subscriber.requests("/billing")) == EVENTS, LIMIT_S)
            for name, to, ref in (
                ("again", "earliest", "billing"),
                ("nowhere", "latest", "missing"),
                ("early", "2099-01-01T00:00:00Z", "billing"),
            ):
                _reset(penstock, name, to, ref)
            penstock.wait_ready("ResetOffset", "again")
            status = penstock.read("ResetOffset", "again")["status"]
            assert status["group"] == f"kafka.{made['metadata']['uid']}"
            assert status["topic"] == penstock.topic("orders")
            assert status["partitions"] == [{"partition": 0, "oldOffset": EVENTS, "newOffset": 0}]
            assert {condition["status"] for condition in status["conditions"]} == {"True"}
            for name, reason in (("nowhere", "SubscriptionNotFound"), ("early", "TimeInFuture")):
                penstock.wait(f"{name} is refused", lambda n=name: penstock.condition("ResetOffset", n)[0] == "False")  # type: ignore[misc]
                assert penstock.condition("ResetOffset", name) == ("False", reason)
                assert ("Warning", reason) in penstock.events("ResetOffset", name)
            wait_until("delivered again", lambda: len(subscriber.requests("/billing")) == 2 * EVENTS, LIMIT_S)
            ids = [request.attributes["id"] for request in subscriber.requests("/billing")]
            assert ids == [str(number) for number in range(EVENTS)] * 2
            penstock.wait_ready("Subscription", "billing")
            (row, *_) = (line for line in kube.admin.table(penstock.path("ResetOffset")) if line["Name"] == "again")
            assert (row["Ref"], row["To"], row["Ready"]) == ("billing", "earliest", "True")
            assert worker.terminate() == 0, worker.tail()
        with penstock.worker() as worker:  # what is over is over
            worker.wait_ready()
            penstock.wait_ready("Subscription", "billing")
            assert post(worker.port, path, "last", b"x").status == 202
            wait_until("the last one", lambda: len(subscriber.requests("/billing")) > 2 * EVENTS, LIMIT_S)
            assert [request.attributes["id"] for request in subscriber.requests("/billing")][2 * EVENTS :] == ["last"]
            penstock.delete("ResetOffset", "again")
            penstock.wait_gone("ResetOffset", "again")
            assert worker.terminate() == 0, worker.tail()
