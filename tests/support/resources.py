"""Writes the YAML that people write: a KafkaChannel and its Subscriptions, into a directory a worker watches.

Plain dictionaries in the shape of the Knative API; the worker validates them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ORDER = "kafka.eventing.knative.dev/delivery.order"
ORDERS = ("ordered", "key-ordered", "unordered")
NAMESPACE = "test"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One Subscription to write. `delivery` as in the API, `reply` a URI or as in the API; `annotations` besides the
    order."""

    name: str
    uri: str
    order: str = "ordered"
    delivery: dict[str, Any] | None = None
    reply: str | dict[str, Any] | None = None
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resources:
    """A directory of resource files for one channel, `test/<channel>`."""

    folder: Path
    channel: str = "orders"
    replication: int = 1

    @property
    def topic(self) -> str:
        """The topic a channel of this name gets by default."""
        return f"knative-messaging-kafka.{NAMESPACE}.{self.channel}"

    @property
    def dlq_topic(self) -> str:
        """Its dead letter topic."""
        return f"{self.topic}.dlq"

    def write_channel(self, partitions: int, delivery: dict[str, Any] | None = None) -> None:
        """Create or change the channel."""
        spec: dict[str, Any] = {"numPartitions": partitions, "replicationFactor": self.replication}
        if delivery is not None:
            spec["delivery"] = delivery
        self._write(f"{self.channel}.yaml", "messaging.knative.dev/v1beta1", "KafkaChannel", self.channel, {}, spec)

    def write(self, wanted: Wanted) -> None:
        """Create or change one Subscription."""
        spec: dict[str, Any] = {
            "channel": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": self.channel},
            "subscriber": {"uri": wanted.uri},
        }
        if wanted.reply is not None:
            spec["reply"] = {"uri": wanted.reply} if isinstance(wanted.reply, str) else wanted.reply
        if wanted.delivery is not None:
            spec["delivery"] = wanted.delivery
        annotations = {ORDER: wanted.order, **wanted.annotations}
        self._write(
            f"{self.channel}-{wanted.name}.yaml",
            "messaging.knative.dev/v1",
            "Subscription",
            wanted.name,
            annotations,
            spec,
        )

    def remove(self, name: str) -> None:
        """Delete one Subscription."""
        (self.folder / f"{self.channel}-{name}.yaml").unlink()

    def _write(
        self, file: str, version: str, kind: str, name: str, annotations: dict[str, str], spec: dict[str, Any]
    ) -> None:
        metadata: dict[str, Any] = {"namespace": NAMESPACE, "name": name}
        if annotations:
            metadata["annotations"] = annotations
        text = yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
        self.folder.mkdir(parents=True, exist_ok=True)
        # A file appears whole or not at all, as an editor that saves properly does it.
        fresh = self.folder / f".{file}.new"
        fresh.write_text(text)
        fresh.rename(self.folder / file)
