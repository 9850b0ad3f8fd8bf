"""The worker's image: what is in it, and that it takes and delivers events as any user, on a root that is read-only."""

from __future__ import annotations

import json
import os
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from app.local.kafka import EmbeddedKafka
from app.operations.manifests import crd_file
from knative.resources.kinds import OURS
from tests.image.containers import Container, Image
from tests.support.installation import Installation
from tests.support.kube.client import path_of
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import install
from tests.support.ledger import reader
from tests.support.processes import REPOSITORY, LoadProcess, SinkProcess, free_port, get, wait_until
from tests.support.resources import Wanted

LIMIT_S = 180.0
EVENTS = 2_000
#: Beyond the base.
SIZE_MOST = 180_000_000
NOT_IN_IT = ("gcc", "cc", "g++", "make", "pip", "pip3", "java", "spark-submit")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_labels_user_and_command(worker_image: Image) -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    labels, process = worker_image.config["annotations"], worker_image.config["process"]
    assert labels["org.opencontainers.image.title"] == "penstock"
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.revision"]
    assert process["args"] == ["penstock", "worker"]
    assert process["user"]["uid"] > 0
    assert process["cwd"] == "/tmp"
    assert worker_image.name == f"penstock:{version}"


def test_size_beyond_the_base(worker_image: Image) -> None:
    assert worker_image.own_bytes() < SIZE_MOST


def test_no_compiler_no_pip_no_spark(worker_image: Image) -> None:
    places = ("usr/bin", "usr/local/bin", "opt/penstock/bin")
    tools = {name for place in places for name in NOT_IN_IT if (worker_image.rootfs / place / name).exists()}
    assert tools == set()
    site = next((worker_image.rootfs / "opt" / "penstock" / "lib").glob("python3.*/site-packages"))
    assert [name for name in ("pip", "setuptools", "pyspark", "numpy", "pytest") if (site / name).exists()] == []
    assert (site / "opentelemetry").is_dir()


def test_list_of_contents_is_that_of_the_lock_file(worker_image: Image) -> None:
    listed = json.loads((worker_image.rootfs / "opt" / "penstock" / "sbom.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    components = {
        (component["name"].lower().replace("_", "-").replace(".", "-"), component["version"])
        for component in listed["components"]
    }
    lines = [
        line.rstrip(" \\") for line in (REPOSITORY / "requirements-otel.lock").read_text().splitlines() if "==" in line
    ]
    pins = [
        requirement
        for requirement in map(Requirement, lines)
        if requirement.marker is None or requirement.marker.evaluate()
    ]
    pinned = {(pin.name.lower(), str(pin.specifier).removeprefix("==")) for pin in pins}
    assert pinned <= components
    assert {name for name, _ in components - pinned} <= {"penstock"}


def test_nothing_in_it_is_writable_by_others(worker_image: Image) -> None:
    assert [str(file) for file in _files(worker_image.rootfs / "opt" / "penstock") if file.stat().st_mode & 0o022] == []


def test_worker_takes_and_delivers_events_in_a_container(
    worker_image: Image, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """All roles in one, with its settings as a pod has them: PORT, variables, no HOME. Prints its figures (`-rP`)."""
    installation = Installation(kafka.bootstrap, tmp_path, partitions=4)
    port, admin_port = free_port(), free_port()
    env = {
        "PORT": str(port),
        "PENSTOCK_ADMIN_PORT": str(admin_port),
        "PENSTOCK_BIND": "127.0.0.1",
        "PENSTOCK_KAFKA": kafka.bootstrap,
        "PENSTOCK_INSTANCE": installation.name,
        "PENSTOCK_RESOURCES": "file:/resources",
    }
    with SinkProcess(tmp_path) as sink:
        installation.write([Wanted("first", sink.url("first"), "key-ordered")])
        mounts = {"/resources": installation.resources.folder}
        with Container(worker_image, tmp_path, env=env, mounts=mounts) as container:
            container.wait_ready(port)
            print(f"{container.cpu_s():.2f} s of CPU until it was ready")
            _run_by_its_user_without_rights(container)
            url = f"http://127.0.0.1:{port}{installation.resources.path}"
            wait_until("the channel has its subscriber", lambda: _subscribed(port, installation), LIMIT_S)
            with LoadProcess(tmp_path, url, events=EVENTS, limit_s=LIMIT_S) as load:
                assert load.result(LIMIT_S)["accepted"] == EVENTS
            wait_until("all events are delivered", lambda: _received(sink) >= EVENTS, LIMIT_S)
            assert get(admin_port, "/metrics")[0] == 200
            print(f"{container.memory_bytes() / 2**20:.0f} MiB of memory at most")
            assert container.terminate(LIMIT_S) == 0, container.tail()
        assert _received(sink) == EVENTS
    assert "worker stopped" in _said(container)


def _run_by_its_user_without_rights(container: Container) -> None:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{container.pid}/status").read_text().splitlines() if ":" in line
    )
    assert set(status["Uid"].split()) == {str(container.user)}
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    variables = Path(f"/proc/{container.pid}/environ").read_bytes().split(b"\0")
    assert not [variable for variable in variables if variable.startswith(b"HOME=/root")]
    root = Path(f"/proc/{container.pid}/root")
    mounts = Path(f"/proc/{container.pid}/mounts").read_text().splitlines()
    (options,) = [line.split()[3].split(",") for line in mounts if line.split()[1] == "/"]
    assert "ro" in options
    assert os.access(root / "tmp", os.W_OK)


def _subscribed(port: int, installation: Installation) -> bool:
    status, body = get(port, f"/subscribers/test/{installation.resources.channel}")
    rows = json.loads(body)["subscribers"] if status == 200 else []
    return [row["ready"] for row in rows] == ["True"]


def _received(sink: SinkProcess) -> int:
    return sum(stat["received"] for stat in sink.stats().values())


def test_wrong_settings_end_with_a_sentence(worker_image: Image, tmp_path: Path) -> None:
    with Container(worker_image, tmp_path, ["worker"], {"PENSTOCK_ROLE": "everything"}) as container:
        assert container.wait(LIMIT_S) == 2
    assert "PENSTOCK_ROLE='everything'" in _said(container)


def test_controller_reconciles_a_cluster(worker_image: Image, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """So what the image leaves out of the Kubernetes client is not missed."""
    name = f"c-{uuid.uuid4().hex[:8]}"
    with KubeCluster(tmp_path / "kube", controllers=False) as kube:
        install(kube, *(crd_file(kind) for kind in OURS))
        metadata = {"namespace": "default", "name": name}
        channel = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata}
        kube.admin.create(channel).must()
        access = tmp_path / "access"
        access.mkdir()
        (access / "ca.crt").write_bytes(kube.ca_file.read_bytes())
        (access / "config").write_text(kube.kubeconfig.read_text().replace(str(kube.ca_file), "/access/ca.crt"))
        env = {
            "PENSTOCK_KAFKA": kafka.bootstrap,
            "PENSTOCK_INSTANCE": name,
            "PENSTOCK_KUBECONFIG": "/access/config",
        }
        arguments = ["controller", "--once", "--resources", "cluster:"]
        with Container(worker_image, tmp_path, arguments, env, {"/access": access}) as container:
            assert container.wait(LIMIT_S) == 0, container.tail()
        document = kube.admin.get(path_of(channel)).must()
    statuses = {condition["type"]: condition["status"] for condition in document["status"]["conditions"]}
    assert statuses["TopicReady"] == "True"
    assert reader.ends(kafka.bootstrap, f"knative-messaging-kafka.default.{name}") == {0: 0}


def _said(container: Container) -> str:
    return container.output() + container.log.read_text()
