"""What `make release` writes: files that an API server accepts, with images by their digests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.kube.build import ensure_kustomize
from tests.support.kube.client import path_of
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.kustomize import OVERLAYS
from tests.support.kube.manifests import install
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.cluster

DIGEST = f"sha256:{'0a' * 32}"
IMAGES = {"--image": f"ghcr.io/example/penstock:0.1.0@{DIGEST}", "--kafka-image": f"docker.io/apache/kafka@{DIGEST}"}
LIMIT_S = 300.0


def release(folder: Path, images: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As the Makefile runs it, with kustomize on the PATH."""
    path = f"{ensure_kustomize().parent}{os.pathsep}{os.environ['PATH']}"
    given = [word for pair in images.items() for word in pair]
    command = [sys.executable, "-m", "app.operations.release", *given, "--to", str(folder)]
    return subprocess.run(
        command, env={**os.environ, "PATH": path}, cwd=REPOSITORY, capture_output=True, text=True, check=False,
        timeout=LIMIT_S,
    )  # fmt: skip


def test_release_is_accepted_and_names_images_by_digest(with_crds: KubeCluster, tmp_path: Path) -> None:
    install(with_crds, *sorted((REPOSITORY / "tests" / "data" / "crds").glob("*.yaml")))
    done = release(tmp_path / "dist", IMAGES)
    assert done.returncode == 0, done.stderr
    names = {"crds-knative", *(path.name for path in OVERLAYS.iterdir())}
    written = {path.name: path for path in (tmp_path / "dist").iterdir()}
    assert set(written) == {f"penstock-{name}.yaml" for name in names}
    assert done.stdout.split() == [str(tmp_path / "dist" / name) for name in sorted(written)]
    for name, path in written.items():
        text = path.read_text()
        assert text.startswith("# Penstock ")
        assert f"--server-side --field-manager=penstock -f {name}\n" in text.splitlines(keepends=True)[0]
        images = {line.split("image: ")[1] for line in text.splitlines() if "image: " in line}
        assert images <= {f"ghcr.io/example/penstock@{DIGEST}", f"docker.io/apache/kafka@{DIGEST}"}
        assert bool(images) is (name != "penstock-crds-knative.yaml")
        for document in yaml.safe_load_all(text):
            if document["kind"] in ("Namespace", "ServiceAccount"):
                with_crds.admin.apply(document).must()
            answer = with_crds.admin.apply(document, dryRun="All")
            assert answer.ok, f"{name}: {path_of(document)}: {answer.message}"


def test_image_without_a_digest_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = release(tmp_path / "dist", {**IMAGES, "--image": "ghcr.io/example/penstock:0.1.0"})
    assert done.returncode == 2
    assert "'ghcr.io/example/penstock:0.1.0' does not name an image by its digest" in done.stderr
    assert not (tmp_path / "dist").exists()
