"""A real Kubernetes API server in a folder, for tests: etcd, kube-apiserver and, if wanted, the controller manager.

    test -> KubeClient -> kube-apiserver (TLS, RBAC, audit log) -> etcd
                               ^ kube-controller-manager: namespaces, garbage, ServiceAccounts, aggregated roles

There are no nodes: Deployments and Pods are objects only. The API server can be killed, paused and started again with
its state; etcd can be compacted.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from app.local.kafka import EmbeddedKafka
from tests.support.kube.audit import POLICY, AuditLog, Request
from tests.support.kube.build import ensure_server
from tests.support.kube.client import KubeClient, resource_path
from tests.support.processes import REPOSITORY, Child, Failed, StartedByWith, free_port, wait_until

#: For each start. Six seconds on two idle cores; compilers and other tests may have them all.
START_LIMIT_S = 300.0
_NAMES = (
    "garbage-collector",
    "namespace",
    "serviceaccount",
    "root-ca-certificate-publisher",
    "clusterrole-aggregation",
)
_CONTROLLERS = ",".join(f"{name}-controller" for name in _NAMES)
_ISSUER = "https://kubernetes.default.svc"


class KubeCluster(StartedByWith):
    """Between `with` and its end it answers. `admin` may do everything."""

    def __init__(self, folder: Path, *, controllers: bool = True) -> None:
        """`controllers`: with the controller manager, without which namespaces are never gone and have no accounts."""
        self.folder = folder.absolute()
        self._audit = AuditLog(self.audit_log)
        self._program = str(ensure_server())
        self._controllers = controllers
        self._pki = self.folder / "pki"
        self._token = secrets.token_hex(16)
        self._etcd_port, self._peer_port, self.port, self._controllers_port = (free_port() for _ in range(4))
        self.api_server: Child  # the process that was started last: `pause`, `resume` and `kill` it
        self._started: list[Child] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The certificate to trust for `url`."""
        return self._pki / "apiserver.crt"

    @property
    def admin(self) -> KubeClient:
        return KubeClient(self.port, self.ca_file, self._token)

    @property
    def kubeconfig(self) -> Path:
        return self.write_kubeconfig("admin", self._token)

    @property
    def audit_log(self) -> Path:
        """One JSON line for each request since the start."""
        return self.folder / "audit.log"

    def requests(self) -> list[Request]:
        """All requests for resources so far."""
        return self._audit.requests()

    def start(self) -> None:
        """Start everything; return when it answers."""
        self._prepare()
        self._run("etcd", self._etcd_flags())
        self.start_api_server()
        if self._controllers:
            self._run("kube-controller-manager", self._controller_manager_flags())
            self.wait_service_account("default", "default")

    def stop(self) -> None:
        """Kill all of it; nothing here is used again. The API server would wait a minute for open watches."""
        for child in reversed(self._started):
            child.kill()

    def _run(self, program: str, flags: Mapping[str, object]) -> Child:
        options = [f"--{name}={value}" for name, value in flags.items()]
        self._started.append(Child(program, [self._program, program, *options], self.folder))
        return self._started[-1]

    def start_api_server(self) -> None:
        """Start it, after `api_server.kill()` with all its state; return when it is ready."""
        self.api_server = self._run("kube-apiserver", self._api_server_flags())
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until the API server says that it is ready."""

        def ready() -> bool:
            if not self.api_server.running:
                raise Failed(f"the API server ended while it started\n{self.api_server.tail()}")
            try:
                return self.admin.get("/readyz").ok
            except OSError:  # also the certificate that it writes first
                return False

        try:
            wait_until("the API server is ready", ready, START_LIMIT_S, poll_s=0.1)
        except Failed as error:
            raise Failed(f"{error}\n{self.api_server.tail()}") from error

    def compact(self) -> None:
        """Have etcd forget all versions but the present: a list or watch that goes on from an older one gets 410."""
        revision = self._ask_etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def create_namespace(self, name: str) -> None:
        """A namespace with its default ServiceAccount."""
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).must()
        if self._controllers:
            self.wait_service_account(name, "default")

    def wait_service_account(self, namespace: str, name: str) -> None:
        path = resource_path("v1", "serviceaccounts", namespace=namespace, name=name)
        wait_until(f"ServiceAccount {namespace}/{name}", lambda: self.admin.get(path).ok, START_LIMIT_S, poll_s=0.1)

    def token(self, namespace: str, name: str) -> str:
        """A token of a ServiceAccount that exists, as a Pod of it has one."""
        path = resource_path("v1", "serviceaccounts", namespace=namespace, name=name) + "/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec = {"expirationSeconds": 36_000}
        return str(self.admin.request("POST", path, {**request, "spec": spec}).must()["status"]["token"])

    def client(self, namespace: str, name: str) -> KubeClient:
        return KubeClient(self.port, self.ca_file, self.token(namespace, name))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of a ServiceAccount."""
        return self.write_kubeconfig(f"{namespace}.{name}", self.token(namespace, name), namespace)

    def write_kubeconfig(self, user: str, token: str, namespace: str = "default", server: str = "") -> Path:
        """A kubeconfig for a token. `server`: another URL than `url`, such as that of a proxy."""
        cluster = {"server": server or self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user, "namespace": namespace}}],
            "current-context": "tests",
        }
        path = self.folder / f"kubeconfig-{user}"
        path.write_text(yaml.safe_dump(content))
        return path

    def _prepare(self) -> None:
        self._pki.mkdir(parents=True, exist_ok=True)
        key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self._pki / "sa.key")]
        subprocess.run(key, check=True, capture_output=True, timeout=60)
        (self._pki / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')
        (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(POLICY))

    def _etcd_flags(self) -> Mapping[str, object]:
        clients, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return {
            "data-dir": self.folder / "etcd",
            "log-level": "warn",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",  # nothing here has to survive the machine
        }

    def _api_server_flags(self) -> Mapping[str, object]:
        # It makes its certificate itself, in `cert-dir`, and takes it again when it is started again.
        return {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self.port,
            "cert-dir": self._pki,
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": self._pki / "tokens.csv",
            "service-account-issuer": _ISSUER,
            "service-account-key-file": self._pki / "sa.key",
            "service-account-signing-key-file": self._pki / "sa.key",
            "audit-policy-file": self.folder / "audit-policy.yaml",
            "audit-log-path": self.audit_log,
            "audit-log-mode": "blocking",
            "profiling": "false",
        }

    def _controller_manager_flags(self) -> Mapping[str, object]:
        return {
            "kubeconfig": self.kubeconfig,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": self._controllers_port,
            "cert-dir": self.folder / "controller-manager",
            "authentication-skip-lookup": "true",
            "root-ca-file": self.ca_file,
            "controllers": _CONTROLLERS,
        }

    def _ask_etcd(self, path: str, body: Mapping[str, object]) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self._etcd_port}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def cluster_with_kafka() -> Iterator[tuple[KubeCluster, EmbeddedKafka, Path]]:
    """A cluster and a Kafka, and the folder of both, which is removed at the end."""
    jars = REPOSITORY / ".penstock" / "kafka"
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        folder = Path(name)
        with (
            EmbeddedKafka(folder / "kafka", port=0, heap="512m", jars_root=jars) as kafka,
            KubeCluster(folder / "kube") as kube,
        ):
            yield kube, kafka, folder
