"""Images of a release: by digest, or not at all."""

from __future__ import annotations

import pytest

from app.operations.release import replaced, without_digest
from knative.errors import UsageError

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("by", "name"),
    [
        (f"ghcr.io/example/penstock@{DIGEST}", "ghcr.io/example/penstock"),
        (f"ghcr.io/example/penstock:0.1.0@{DIGEST}", "ghcr.io/example/penstock"),
        (f"localhost:5000/penstock@{DIGEST}", "localhost:5000/penstock"),
        (f"localhost:5000/penstock:7@{DIGEST}", "localhost:5000/penstock"),
    ],
)
def test_image_by_its_digest_takes_the_place_of_the_overlays(by: str, name: str) -> None:
    assert replaced("registry.example.com/penstock", by) == {
        "name": "registry.example.com/penstock",
        "newName": name,
        "digest": DIGEST,
    }


@pytest.mark.parametrize(
    "by", ["", "ghcr.io/example/penstock:0.1.0", f"penstock@{DIGEST}", f"ghcr.io/example/penstock@{DIGEST[:-1]}"]
)
def test_image_without_registry_or_digest_is_refused(by: str) -> None:
    with pytest.raises(UsageError) as refused:
        replaced("registry.example.com/penstock", by)
    assert repr(by) in refused.value.what
    assert "REGISTRY/NAME@sha256:" in refused.value.hint


def test_what_is_left_without_a_digest_is_found() -> None:
    rendered = f"""
    spec:
      initContainers:
      - image: busybox
        name: wait
      containers:
      - name: penstock
        image: ghcr.io/example/penstock@{DIGEST}
      - name: kafka
        image: apache/kafka:4.4.0
      - image: ghcr.io/example/penstock:0.1.0
    """
    assert without_digest(rendered) == ["apache/kafka:4.4.0", "busybox", "ghcr.io/example/penstock:0.1.0"]
