"""Builds an image as `images/build` does, without a registry or a daemon, and runs containers of it.

    mmdebstrap -> base (once, .penstock/image) -> images/build with buildah -> umoci -> root file system -> runc

Needs root, and the Debian packages in PROGRAMS. A container shares the network of the machine, and nothing else: it
has a random user, a root file system that is read-only, no capabilities, and a limit of memory.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.local.kafka.locks import locked
from tests.support.proc import cpu_s
from tests.support.processes import REPOSITORY, Child, Failed, get, wait_until

PROGRAMS = ("buildah", "mmdebstrap", "runc", "umoci")
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_SUITE = "bookworm"
_CACHE = REPOSITORY / ".penstock" / "image"
_BASE = "localhost/penstock-base"
_LIMIT_S = 1800.0
_START_LIMIT_S = 180.0
_TMP_OPTIONS = ["nosuid", "nodev", "size=64m", "mode=1777"]
_TMP = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": _TMP_OPTIONS}
MIB = 1_048_576
_numbers = itertools.count(1)


def missing() -> list[str]:
    """What this machine lacks to build and run images."""
    root = [] if os.geteuid() == 0 else ["the rights of root"]
    return root + [name for name in PROGRAMS if shutil.which(name) is None]


class Image:
    """An image that `images/build KIND` has built, unpacked below `folder`."""

    def __init__(self, kind: str, folder: Path, packages: Sequence[str] = ()) -> None:
        """`packages` of Debian that the base has besides Python."""
        self.folder = folder
        storage = folder / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n', encoding="utf-8"
        )
        # chroot: the build needs no namespaces of its own, which are not to be had everywhere.
        self._env = {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "STORAGE_DRIVER": "vfs",
            "BUILDAH_ISOLATION": "chroot",
            "BUILDER": "buildah",
            "BASE": _BASE,
        }
        self._build_base((*_PACKAGES, *packages))
        self.name = self._run(str(REPOSITORY / "images" / "build"), kind).splitlines()[-1]
        self._run("buildah", "push", "-q", f"localhost/{self.name}", f"oci:{folder}/oci:{kind}")
        self._run("umoci", "unpack", "--image", f"{folder}/oci:{kind}", str(folder / "bundle"))
        self.rootfs = folder / "bundle" / "rootfs"
        self.config: dict[str, Any] = json.loads((folder / "bundle" / "config.json").read_text())

    def own_bytes(self) -> int:
        """The size of what it has beyond its base."""
        files = (self.rootfs / "opt" / "penstock").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())

    def remove(self) -> None:
        """All of it: two copies of the base and more, which pytest would keep."""
        shutil.rmtree(self.folder)

    def _build_base(self, packages: Sequence[str]) -> None:
        archive = _CACHE / f"{_SUITE}-{'-'.join(packages)}.tar"
        _CACHE.mkdir(parents=True, exist_ok=True)
        with locked(_CACHE / "base.lock", _LIMIT_S, "is making the root file system of a base image"):
            if not archive.exists():
                made, include = archive.with_suffix(".made.tar"), f"--include={','.join(packages)}"
                self._run("mmdebstrap", "--quiet", "--variant=minbase", include, _SUITE, str(made))
                made.rename(archive)
        context = self.folder / "base"
        context.mkdir()
        (context / "Containerfile").write_text("FROM scratch\nADD rootfs.tar /\n")
        shutil.copyfile(archive, context / "rootfs.tar")
        self._run("buildah", "build", "-q", "-t", _BASE, str(context))
        shutil.rmtree(context)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=REPOSITORY, env={**os.environ, **self._env}, capture_output=True, text=True, check=False,
            timeout=_LIMIT_S,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"[-4000:])
        return done.stdout


class Container(Child):
    """A started container of an image, and its process."""

    def __init__(
        self, image: Image, folder: Path, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None,
        mounts: Mapping[str, Path] | None = None, *, volumes: Mapping[str, Path] | None = None, user: int = 0,
        memory_bytes: int = 256 * MIB,
    ) -> None:  # fmt: skip
        """`arguments` are for its entrypoint, none = those of the image; `mounts`: place in it -> folder, read-only;
        `volumes`: the same, for its user to write to; `user` 0 = a random one."""
        self.id = f"penstock-test-{os.getpid()}-{next(_numbers)}"
        self.user = user or random.randint(100_000, 2_000_000_000)
        self._state = folder / "runc"
        bundle = folder / self.id
        bundle.mkdir(parents=True)
        config = _config(image, self.user, arguments, env or {}, memory_bytes)
        hosts = folder / f"{self.id}.hosts"
        hosts.write_text(f"127.0.0.1 localhost {self.id}\n")  # a pod finds its own name there too
        config["hostname"] = self.id
        config["mounts"].append(_bind("/etc/hosts", hosts, "ro"))
        config["mounts"] += [_bind(place, source, "ro") for place, source in (mounts or {}).items()]
        for place, source in (volumes or {}).items():
            os.chown(source, self.user, self.user)
            config["mounts"].append(_bind(place, source, "rw"))
        (bundle / "config.json").write_text(json.dumps(config))
        command = ["runc", "--root", str(self._state), "run", "--bundle", str(bundle), self.id]
        super().__init__(self.id, command, folder)

    def kill(self) -> None:
        """The container, and then the program that waits for it."""
        delete = ["runc", "--root", str(self._state), "delete", "--force", self.id]
        subprocess.run(delete, capture_output=True, check=False, timeout=60)
        super().kill()

    @property
    def pid(self) -> int:
        """Its first process, as this machine sees it; 0 before it runs."""
        state = ["runc", "--root", str(self._state), "state", self.id]
        done = subprocess.run(state, capture_output=True, text=True, check=False, timeout=60)
        return int(json.loads(done.stdout)["pid"]) if done.returncode == 0 else 0

    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    def memory_bytes(self) -> int:
        """The most that all of it ever held, in the terms of its limit."""
        lines = Path(f"/proc/{self.pid}/cgroup").read_text().splitlines()
        groups = dict(line.split(":", 2)[1:] for line in lines if line)
        if "memory" in groups:
            return int(Path(f"/sys/fs/cgroup/memory{groups['memory']}/memory.max_usage_in_bytes").read_text())
        return int(Path(f"/sys/fs/cgroup{groups['']}/memory.peak").read_text())

    def wait_ready(self, port: int) -> None:
        def ready() -> bool:
            if not self.running:
                raise Failed(f"the container ended while it started\n{self.tail()}")
            return get(port, "/readyz")[0] == 200

        wait_until(f"/readyz of {self.id} answers 200", ready, _START_LIMIT_S)


def _config(
    image: Image, user: int, arguments: Sequence[str], env: Mapping[str, str], memory_bytes: int
) -> dict[str, Any]:
    """The bundle of umoci with less rights."""
    config: dict[str, Any] = json.loads(json.dumps(image.config))
    process, linux = config["process"], config["linux"]
    process["terminal"] = False
    process["user"] = {"uid": user, "gid": user}
    process["capabilities"] = {kind: [] for kind in process["capabilities"]}
    process["args"] = [process["args"][0], *(arguments or process["args"][1:])]
    process["env"] += [f"{name}={value}" for name, value in env.items()]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # more than that is not ours to give
    process["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": hard, "soft": min(hard, 1024)}]
    config["root"] = {"path": str(image.rootfs), "readonly": True}
    linux["namespaces"] = [namespace for namespace in linux["namespaces"] if namespace["type"] != "network"]
    linux["resources"]["memory"] = {"limit": memory_bytes, "swap": memory_bytes}
    config["mounts"] = [mount for mount in config["mounts"] if not mount["destination"].startswith("/sys")]
    config["mounts"].append(_TMP)
    return config


def _bind(place: str, folder: Path, mode: str) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": str(folder), "options": ["rbind", mode]}
