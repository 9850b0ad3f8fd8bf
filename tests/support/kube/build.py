"""Builds programs of the tests from the Go module proxy, once per version.

    server/{go.mod,go.sum,main.go} and the version of Go    -> sha256 -> .penstock/kube/<hash>/kubernetes
    kustomize/{go.mod,go.sum,main.go} and the version of Go -> sha256 -> .penstock/kube/<hash>/kustomize

The first is etcd, kube-apiserver and kube-controller-manager in one. A cold build of it downloads 600 MB and takes some
ten minutes on two cores, that of kustomize ten seconds; afterwards it is a look at one file.
`python -m tests.support.kube.build` builds both now and prints the paths.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from app.local.kafka.locks import locked
from knative.errors import PenstockError
from tests.support.processes import REPOSITORY

SOURCES = Path(__file__).with_name("server")
KUSTOMIZE_SOURCES = Path(__file__).with_name("kustomize")
CACHE = REPOSITORY / ".penstock" / "kube"
GO_LEAST = (1, 26)
_LIMIT_S = 3000.0
_PACKAGE = "k8s.io/component-base/version"


def kubernetes_version() -> str:
    """The version that the sources pin, as `v1.36.3`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, "go.mod requires k8s.io/kubernetes"
    return found[1]


def ensure_server(root: Path = CACHE) -> Path:
    """The API server, built if needed. Raises PenstockError with a hint."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(f"-X {_PACKAGE}.{name}={value}" for name, value in values.items())
    return _ensure("kubernetes", SOURCES, root, flags)


def ensure_kustomize(root: Path = CACHE) -> Path:
    """kustomize, built if needed. Raises PenstockError with a hint."""
    return _ensure("kustomize", KUSTOMIZE_SOURCES, root)


def _ensure(name: str, sources: Path, root: Path, flags: str = "") -> Path:
    go, version = _go()
    target = root / _digest(sources, version) / name
    if target.is_file():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "build.lock", _LIMIT_S, "is building a program of tests/cluster"):
        if not target.is_file():  # otherwise another process built it while this one waited
            _build(go, sources, target, flags)
    return target


def _go() -> tuple[str, str]:
    go = shutil.which("go")
    if go is None:
        raise PenstockError("There is no `go` on the PATH.", _go_hint())
    version = _output([go, "env", "GOVERSION"])
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < GO_LEAST:
        raise PenstockError(f"{go} is {version or 'of an unknown version'}.", _go_hint())
    return go, version


def _go_hint() -> str:
    return f"The programs of tests/cluster are built with Go {GO_LEAST[0]}.{GO_LEAST[1]} or newer: https://go.dev/dl."


def _digest(sources: Path, go_version: str) -> str:
    parts = [(sources / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")]
    return hashlib.sha256(b"\0".join([*parts, go_version.encode()])).hexdigest()[:16]


def _build(go: str, sources: Path, target: Path, flags: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parents[1]) as staging:
        built = Path(staging) / target.name
        command = [
            go,
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-mod=readonly",
            "-ldflags",
            f"-s -w {flags}",
            "-o",
            str(built),
            ".",
        ]
        # Without cgo the program runs on any machine of this kind; GOTOOLCHAIN=local: no other Go is downloaded.
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
        done = subprocess.run(
            command, cwd=sources, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise PenstockError(
                f"{target.name} of tests/cluster could not be built:\n{done.stderr[-2000:]}",
                "The build needs the Go module proxy (GOPROXY), 4 GB of memory and 6 GB in Go's caches.",
            )
        target.parent.mkdir(exist_ok=True)
        built.rename(target)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    print(ensure_kustomize())
    print(ensure_server())
