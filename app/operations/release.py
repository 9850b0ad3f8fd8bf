"""Writes one YAML file for each overlay, with the images by their digests: what a release has for `kubectl apply -f`.

    knative/manifests/overlays/plain + IMAGE@sha256:... -> dist/penstock-plain.yaml
    knative/manifests/crds/knative                      -> dist/penstock-crds-knative.yaml

`make release`. Kustomize renders them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import yaml

from app.operations.doctor.cluster import APPLY
from app.operations.manifests import CRDS
from app.settings.generated import REPOSITORY
from app.timing import START_S
from knative.errors import UsageError

OVERLAYS = CRDS.parent / "overlays"
IMAGE, KAFKA = "registry.example.com/penstock", "apache/kafka"  #: as the overlays name them
_DIGEST = re.compile(r"(?P<name>[^@\s]+/[^@\s]+)@(?P<digest>sha256:[0-9a-f]{64})")
_IMAGES = re.compile(r"^\s*(?:- )?image: *(\S+)$", re.MULTILINE)


def replaced(name: str, by: str) -> dict[str, str]:
    """Returns an entry of `images` of a kustomization. Raises UsageError if `by` has no registry or no digest."""
    match = _DIGEST.fullmatch(by)
    if match is None:
        raise UsageError(
            f"{by!r} does not name an image by its digest.",
            "Push the image, and write what the registry says: REGISTRY/NAME@sha256: and 64 digits.",
        )
    registry, _, rest = match["name"].rpartition("/")
    return {"name": name, "newName": f"{registry}/{rest.partition(':')[0]}", "digest": match["digest"]}


def without_digest(rendered: str) -> list[str]:
    """Returns the images in YAML that a tag names, or nothing."""
    return sorted({image for image in _IMAGES.findall(rendered) if "@sha256:" not in image})


def render(folder: Path, images: Sequence[dict[str, str]] = ()) -> str:
    """Returns a kustomization of the repository as YAML. Raises UsageError with what kustomize says."""
    program = shutil.which("kustomize")
    command = [program, "build"] if program else ["kubectl", "kustomize"]
    if program is None and shutil.which("kubectl") is None:
        raise UsageError(
            "There is no kustomize and no kubectl on the PATH.", "Install one of them: it renders overlays."
        )
    with tempfile.TemporaryDirectory() as top:
        # kustomize takes no absolute paths.
        content = {"resources": [os.path.relpath(folder, Path(top).resolve())], "images": list(images)}
        (Path(top) / "kustomization.yaml").write_text(yaml.safe_dump(content))
        done = subprocess.run([*command, top], capture_output=True, text=True, check=False, timeout=START_S)
    if done.returncode != 0:
        raise UsageError(f"kustomize cannot render {folder}: {done.stderr.strip()}", "Correct the overlay.")
    return done.stdout


def files(image: str, kafka: str) -> dict[str, str]:
    """Returns every file of a release by its name. Raises UsageError."""
    images = [replaced(IMAGE, image), replaced(KAFKA, kafka)]
    folders = {"crds-knative": CRDS / "knative", **{path.name: path for path in sorted(OVERLAYS.iterdir())}}
    manifests = {}
    for name, folder in folders.items():
        text = render(folder, images)
        if left := without_digest(text):
            raise UsageError(
                f"{folder} has images without a digest: {', '.join(left)}.", "Give them one in release.py."
            )
        file = f"penstock-{name}.yaml"
        manifests[file] = f"# Penstock {version('penstock')}. {APPLY} -f {file}\n{text}"
    return manifests


def main(arguments: Iterable[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="release", description="Write one YAML file for each overlay into dist.")
    parser.add_argument("--image", required=True, help="the image of workers: NAME@sha256:...")
    parser.add_argument("--kafka-image", required=True, help="Kafka's image, of the overlay dev: NAME@sha256:...")
    parser.add_argument("--to", type=Path, default=REPOSITORY / "dist", help="the folder (default: dist)")
    given = parser.parse_args(list(arguments))
    try:
        manifests = files(given.image, given.kafka_image)
    except UsageError as problem:
        print(problem, file=sys.stderr)
        return 2
    given.to.mkdir(parents=True, exist_ok=True)
    for name, text in manifests.items():
        (given.to / name).write_text(text, encoding="utf-8")
        print(given.to / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
