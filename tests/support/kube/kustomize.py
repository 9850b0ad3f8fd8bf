"""Renders kustomizations as `kubectl apply -k` does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from app.operations.manifests import CRDS
from tests.support.kube.build import ensure_kustomize

MANIFESTS = CRDS.parent
OVERLAYS = MANIFESTS / "overlays"
COMPONENTS = MANIFESTS / "components"
_LIMIT_S = 120.0


def render(folder: Path) -> list[dict[str, Any]]:
    """All objects of the kustomization in `folder`, in its order."""
    done = subprocess.run(
        [str(ensure_kustomize()), "build", str(folder)], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # such as a field that is deprecated
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def write_kustomization(
    folder: Path, resources: Sequence[Path], components: Sequence[Path] = (), **fields: object
) -> Path:
    """A kustomization of a user in `folder`, on top of folders of the repository. Returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize takes no absolute paths.
        "resources": [os.path.relpath(resource, folder.resolve()) for resource in resources],
        "components": [os.path.relpath(component, folder.resolve()) for component in components],
        **fields,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder
