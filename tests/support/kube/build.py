"""Builds programs of the tests from the Go module proxy, once per version.

    server/{go.mod,go.sum,main.go} and the version of Go    -> sha256 -> .penstock/kube/<hash>/kubernetes
    kustomize/{go.mod,go.sum,main.go} and the version of Go -> sha256 -> .penstock/kube/<hash>/kustomize
    core/{go.mod,go.sum} and the version of Go              -> sha256 -> .penstock/kube/<hash>/core

The first is etcd, kube-apiserver and kube-controller-manager in one. A cold build of it downloads 600 MB and takes some
ten minutes on two cores, that of kustomize ten seconds, and that of Knative eventing's core, a folder with two programs
and their manifests, three minutes. `python -m tests.support.kube.build` builds all now and prints the paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from app.local.kafka.locks import locked
from knative.errors import PenstockError
from tests.support.processes import REPOSITORY

SOURCES = Path(__file__).with_name("server")
KUSTOMIZE_SOURCES = Path(__file__).with_name("kustomize")
CORE_SOURCES = Path(__file__).with_name("core")
CORE_PROGRAMS = ("controller", "webhook")
CACHE = REPOSITORY / ".penstock" / "kube"
GO_LEAST = (1, 26)
_LIMIT_S = 3000.0
_PACKAGE = "k8s.io/component-base/version"
_EVENTING = "knative.dev/eventing"
#: In the `main.go` of both programs of core: each listens on port 8080 for probes, which outside of pods is the same.
_WITH_PROBES = "signals.NewContext()"
_WITHOUT_PROBES = "sharedmain.WithHealthProbesDisabled(signals.NewContext())"


def kubernetes_version() -> str:
    """The version that the sources pin, as `v1.36.3`."""
    (version,) = re.findall(r"^\s*k8s\.io/kubernetes (v\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    return str(version)


def is_server_built(root: Path = CACHE) -> bool:
    """Whether an API server is there, so that nobody waits for it to be built."""
    return any(root.glob("*/kubernetes"))


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


def ensure_core(root: Path = CACHE) -> Path:
    """A folder with Knative eventing's `controller`, `webhook` and `eventing.yaml`, its manifests, built if needed.
    Raises PenstockError with a hint."""
    go, version = _go()
    folder = root / _digest(CORE_SOURCES, version, _WITHOUT_PROBES) / "core"
    return _once(folder, root, lambda staging: _build_core(go, staging))


def _ensure(name: str, sources: Path, root: Path, flags: str = "") -> Path:
    go, version = _go()
    target = root / _digest(sources, version) / name
    return _once(target, root, lambda staging: _compile(go, sources, staging / name, ".", flags))


def _once(target: Path, root: Path, build: Callable[[Path], Path]) -> Path:
    """`target`, to which what `build` gives is renamed if it is not there. It builds in a folder of its own."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(root / "build.lock", _LIMIT_S, "is building a program of tests/cluster"):
        if not target.exists():  # otherwise another process built it while this one waited
            with tempfile.TemporaryDirectory(prefix=".build-", dir=root) as staging:
                build(Path(staging)).rename(target)
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


def _digest(sources: Path, go_version: str, *more: str) -> str:
    parts = [path.read_bytes() for path in sorted(sources.iterdir())]
    return hashlib.sha256(b"\0".join([*parts, go_version.encode(), *(text.encode() for text in more)])).hexdigest()[:16]


def _build_core(go: str, staging: Path) -> Path:
    """The programs are compiled from copies of their `main.go`, without probes; all else is the module as it is."""
    built, sources = staging / "core", staging / "sources"
    built.mkdir()
    shutil.copytree(CORE_SOURCES, sources)
    module = Path(json.loads(_run([go, "mod", "download", "-json", _EVENTING], sources, "core"))["Dir"])
    for program in CORE_PROGRAMS:
        main = (module / "cmd" / program / "main.go").read_text()
        assert main.count(_WITH_PROBES) == 1, f"{_EVENTING}/cmd/{program} is not as expected"
        (sources / program).mkdir()
        (sources / program / "main.go").write_text(main.replace(_WITH_PROBES, _WITHOUT_PROBES))
        _compile(go, sources, built / program, f"./{program}", "")
    manifests = sorted((module / "config" / "core").rglob("*.yaml"))
    (built / "eventing.yaml").write_text("\n---\n".join(path.read_text() for path in manifests))
    return built


def _compile(go: str, sources: Path, built: Path, package: str, flags: str) -> Path:
    options = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", f"-s -w {flags}"]
    _run([go, "build", *options, "-o", str(built), package], sources, built.name)
    return built


def _run(command: list[str], sources: Path, name: str) -> str:
    """What it prints. Raises PenstockError with what it says if it fails; `name`: what is being built."""
    # Without cgo the program runs on any machine of this kind; GOTOOLCHAIN=local: no other Go is downloaded.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    done = subprocess.run(
        command, cwd=sources, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise PenstockError(
            f"{name} of tests/cluster could not be built:\n{done.stderr[-2000:]}",
            "The build needs the Go module proxy (GOPROXY), 4 GB of memory and 6 GB in Go's caches.",
        )
    return done.stdout


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    print(ensure_kustomize())
    print(ensure_core())
    print(ensure_server())
