"""Files of resources for tests of the directory: channels by name, and what a look found of them."""

from __future__ import annotations

from pathlib import Path

from controller.source.directory import Snapshot
from knative.resources.values import KafkaChannel

TEXT = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata:
  name: {name}
spec:
  numPartitions: {partitions}
"""


def write(root: Path, file: str, *names: str, partitions: object = 1) -> None:
    """A file with a channel for each name."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(TEXT.format(name=name, partitions=partitions) for name in names), "utf-8")


def partitions_of(snapshot: Snapshot) -> dict[str, int]:
    """Name of each channel and its partitions."""
    return {
        written.resource.name: written.resource.partitions
        for written in snapshot.objects
        if isinstance(written.resource, KafkaChannel)
    }
