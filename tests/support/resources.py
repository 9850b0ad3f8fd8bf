"""Writes the YAML that people write, into a directory that a worker watches: a KafkaChannel and its Subscriptions, or a
Broker and its Triggers. Reads their statuses.

Plain dictionaries in the shape of the Knative API; the worker validates them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

ORDER = "kafka.eventing.knative.dev/delivery.order"
ORDERS = ("ordered", "key-ordered", "unordered")
NAMESPACE = "test"


def read_status(path: Path) -> dict[str, Any]:
    """A status file; {} when there is none. It may be removed at any moment."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """One Subscription or Trigger to write. `delivery` as in the API, `reply` a URI or as in the API; `annotations`
    besides the order; `filter` is what a Trigger's `spec` has of `filter` and `filters`."""

    name: str
    uri: str
    order: str = "ordered"
    delivery: dict[str, Any] | None = None
    reply: str | dict[str, Any] | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    filter: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resources:
    """A directory of resource files for one channel, `test/<channel>`."""

    folder: Path
    channel: str = "orders"
    replication: int = 1
    secret: str = ""  #: of the broker
    kind: ClassVar[str] = "Subscription"  #: of what `write` writes

    @property
    def path(self) -> str:
        """The channel's path at the ingress."""
        return f"/channels/{NAMESPACE}/{self.channel}"

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
        self._write(
            f"{self.channel}.yaml",
            "messaging.knative.dev/v1beta1",
            "KafkaChannel",
            self.channel,
            {},
            spec,
        )

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
        self._write(self._file(wanted.name), "messaging.knative.dev/v1", self.kind, wanted.name, annotations, spec)

    def remove(self, name: str) -> None:
        """Delete one Subscription."""
        (self.folder / self._file(name)).unlink()

    def _file(self, name: str) -> str:
        return f"{self.channel}-{name}.yaml"

    def _write(
        self,
        file: str,
        version: str,
        kind: str,
        name: str,
        annotations: dict[str, str],
        content: dict[str, Any],
        under: str = "spec",
    ) -> None:
        metadata: dict[str, Any] = {"namespace": NAMESPACE, "name": name}
        if annotations:
            metadata["annotations"] = annotations
        text = yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": metadata, under: content})
        self.folder.mkdir(parents=True, exist_ok=True)
        # A file appears whole or not at all, as an editor that saves properly does it.
        fresh = self.folder / f".{file}.new"
        fresh.write_text(text)
        fresh.rename(self.folder / file)


@dataclass(frozen=True, slots=True)
class BrokerResources(Resources):
    """The same for one Broker, `test/<channel>`, with its ConfigMap and its Triggers."""

    kind: ClassVar[str] = "Trigger"

    @property
    def path(self) -> str:
        """The broker's path at the ingress."""
        return f"/{NAMESPACE}/{self.channel}"

    @property
    def topic(self) -> str:
        """The topic a broker of this name gets by default."""
        return f"knative-broker.{NAMESPACE}.{self.channel}"

    def write_channel(self, partitions: int, delivery: dict[str, Any] | None = None) -> None:
        """Create or change the broker."""
        config = f"{self.channel}-config"
        data = {
            "default.topic.partitions": str(partitions),
            "default.topic.replication.factor": str(self.replication),
        }
        if self.secret:
            data["auth.secret.ref.name"] = self.secret
        self._write(f"{config}.yaml", "v1", "ConfigMap", config, {}, data, under="data")
        spec: dict[str, Any] = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": config}}
        if delivery is not None:
            spec["delivery"] = delivery
        annotations = {
            "eventing.knative.dev/broker.class": "Kafka",
            "penstock.dev/hosts": f"{self.channel}.test",  # without an address it would not be ready
        }
        self._write(f"{self.channel}.yaml", "eventing.knative.dev/v1", "Broker", self.channel, annotations, spec)

    def write(self, wanted: Wanted) -> None:
        """Create or change one Trigger."""
        assert wanted.reply is None, "a Trigger's replies go to its broker"
        spec: dict[str, Any] = {"broker": self.channel, "subscriber": {"uri": wanted.uri}, **wanted.filter}
        if wanted.delivery is not None:
            spec["delivery"] = wanted.delivery
        annotations = {ORDER: wanted.order, **wanted.annotations}
        self._write(self._file(wanted.name), "eventing.knative.dev/v1", self.kind, wanted.name, annotations, spec)
