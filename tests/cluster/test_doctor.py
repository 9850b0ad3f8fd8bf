"""`penstock doctor` and `penstock status` with an API server: permissions, CRDs, who resolves Subscriptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from knative.resources.kinds import OURS
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import LIMIT_S, PenstockInCluster
from tests.support.processes import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

Rows = dict[str, list[tuple[str, str]]]


def _doctor(penstock: PenstockInCluster, env: Mapping[str, str] | None = None) -> tuple[int, Rows]:
    """The exit code, and check -> (level, what was found)."""
    with penstock.command("doctor", "-o", "json", env=env) as command:
        code = command.wait(LIMIT_S)
        rows: Rows = {}
        for row in json.loads(command.output()):
            rows.setdefault(row["check"], []).append((row["level"], row["found"]))
            assert bool(row["hint"]) == (row["level"] in ("warning", "problem"))
        return code, rows


def _kubeconfig(penstock: PenstockInCluster, account: str, server: str = "") -> dict[str, str]:
    token = penstock.kube.token(penstock.namespace, account)
    path = penstock.kube.write_kubeconfig(f"{penstock.name}.{account}.asks", token, penstock.namespace, server)
    return {"PENSTOCK_KUBECONFIG": str(path)}


def test_controllers_user_has_all_permissions_and_others_do_not(penstock: PenstockInCluster) -> None:
    with penstock.worker("controller") as controller:
        controller.wait_ready()
        penstock.wait("it leads", lambda: "controller is the leader" in controller.log.read_text(errors="replace"))
        code, checks = _doctor(penstock)
        user = f"system:serviceaccount:{penstock.namespace}:controller"
        ((level, text),) = checks["permissions"]
        assert (level, text.startswith(f"{user} has all ")) == ("ok", True), text
        ((level, text),) = checks["CRDs"]
        assert level == "ok"
        assert "this user may not read CRDs" in text
        assert [level for level, _ in checks["clock of the API server"]] == ["ok"]
        assert checks["subscriptions"] == [("ok", "PENSTOCK_SUBSCRIPTIONS=own: this controller resolves Subscriptions")]
        assert checks["controllers"] == [("ok", "1 controller in the leader election")]
        assert [level for level, _ in checks["topics"]] == ["ok"], checks
        assert code == 0, checks

        code, checks = _doctor(penstock, _kubeconfig(penstock, "default"))
        ((level, text),) = checks["permissions"]
        assert level == "problem"
        assert "list, patch, watch brokers.eventing.knative.dev in namespace" in text
        assert "create, get, update leases.coordination.k8s.io" in text
        assert code == 1
        assert controller.terminate() == 0


def test_administrator_sees_that_the_crds_are_of_this_version(penstock: PenstockInCluster) -> None:
    env = {"PENSTOCK_KUBECONFIG": str(penstock.kube.kubeconfig), "PENSTOCK_SUBSCRIPTIONS": "auto"}
    _, checks = _doctor(penstock, {**env, "PENSTOCK_RESOURCES": f"cluster:{penstock.namespace},missing"})
    assert checks["namespaces"] == [("warning", "the cluster has no namespace missing, so nothing there is served")]
    assert checks["CRDs"] == [("ok", "installed: " + ", ".join(kind.name for kind in OURS))]
    ((level, text),) = checks["subscriptions"]
    assert level == "ok"
    assert text.startswith("auto: the cluster does not have Knative's kind Channel, so subscriptions are own")


def test_api_server_that_is_away_is_one_line(penstock: PenstockInCluster) -> None:
    env = _kubeconfig(penstock, "controller", f"https://127.0.0.1:{free_port()}")
    code, checks = _doctor(penstock, {**env, "PENSTOCK_KAFKA": f"127.0.0.1:{free_port()}"})
    assert code == 1
    assert [level for level, _ in checks["API server"]] == ["problem"]
    assert [level for level, _ in checks["Kafka"]] == ["problem"]
    assert "CRDs" not in checks


def test_cluster_without_brokers_is_ready(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kinds = [kind for kind in OURS if kind.name in ("KafkaChannel", "Subscription")]
    with KubeCluster(tmp_path / "kube") as kube:
        penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path, kinds)
        penstock.channel("orders")
        with penstock.worker() as worker:
            worker.wait_ready()
            penstock.wait_ready("KafkaChannel", "orders")
            with penstock.command("status", "--wait", "-n", penstock.namespace) as status:
                assert status.wait(LIMIT_S) == 0, status.output() + status.tail()
                assert f"{penstock.namespace}/orders" in status.output()
            with penstock.command("status", "-o", "json") as status:
                assert status.wait(LIMIT_S) == 0, status.output() + status.tail()
                problems = json.loads(status.output())["problems"]
            missing = [row for row in problems if "install its CRD" in row["message"]]
            assert {row["ready"] for row in missing} == {"True"}
            assert len(missing) == len(OURS) - len(kinds), problems
            code, checks = _doctor(penstock)
            assert [(level, text.split()[0]) for level, text in checks["CRDs"]] == [
                ("warning", kind.name) for kind in OURS if kind not in kinds
            ]
            assert code == 0, checks
            assert worker.terminate() == 0
