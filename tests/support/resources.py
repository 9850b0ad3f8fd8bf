"""Writes the YAML that people write, into a directory that a worker watches: a KafkaChannel and its Subscriptions, or a
Broker and its Triggers. Reads their statuses.

Plain dictionaries in the shape of the Knative API; the worker validates them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ORDER = "kafka.eventing.knative.dev/delivery.order"
ORDERS = ("ordered", "key-ordered", "unordered")
NAMESPACE = "test"
_VERSIONS = {
    "KafkaChannel": "messaging.knative.dev/v1beta1",
    "Subscription": "messaging.knative.dev/v1",
    "Broker": "eventing.knative.dev/v1",
    "Trigger": "eventing.knative.dev/v1",
    "ConfigMap": "v1",
}


def read_status(path: Path) -> dict[str, Any]:
    """A status file; {} when there is none. It may be removed at any moment."""
    try:
        status: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return status


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
    """A directory of resource files for one channel, `test/<channel>`, or for one Broker with its ConfigMap. `secret`:
    of the broker."""

    folder: Path
    channel: str
    replication: int
    is_broker: bool
    secret: str

    @property
    def kind(self) -> str:
        """Of what `write` writes."""
        return "Trigger" if self.is_broker else "Subscription"

    @property
    def path(self) -> str:
        """At the ingress."""
        return f"/{NAMESPACE}/{self.channel}" if self.is_broker else f"/channels/{NAMESPACE}/{self.channel}"

    @property
    def topic(self) -> str:
        """The topic that a channel or broker of this name gets by default."""
        return f"knative-{'broker' if self.is_broker else 'messaging-kafka'}.{NAMESPACE}.{self.channel}"

    @property
    def dlq_topic(self) -> str:
        return f"{self.topic}.dlq"

    def write_channel(self, partitions: int, delivery: dict[str, Any] | None = None) -> None:
        """Create or change the channel or broker."""
        more = {} if delivery is None else {"delivery": delivery}
        if not self.is_broker:
            spec = {"numPartitions": partitions, "replicationFactor": self.replication, **more}
            self._write(self.channel, "KafkaChannel", self.channel, {}, spec=spec)
            return
        config = f"{self.channel}-config"
        data = {
            "default.topic.partitions": str(partitions),
            "default.topic.replication.factor": str(self.replication),
            **({"auth.secret.ref.name": self.secret} if self.secret else {}),
        }
        self._write(config, "ConfigMap", config, {}, data=data)
        annotations = {
            "eventing.knative.dev/broker.class": "Kafka",
            "penstock.dev/hosts": f"{self.channel}.test",  # without an address it would not be ready
        }
        spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": config}, **more}
        self._write(self.channel, "Broker", self.channel, annotations, spec=spec)

    def write(self, subscription: Wanted) -> None:
        """Create or change one Subscription or Trigger."""
        channel = {"apiVersion": _VERSIONS["KafkaChannel"], "kind": "KafkaChannel", "name": self.channel}
        spec: dict[str, Any] = {"broker": self.channel} if self.is_broker else {"channel": channel}
        spec |= {"subscriber": {"uri": subscription.uri}, **subscription.filter}
        if subscription.reply is not None:
            assert not self.is_broker, "a Trigger's replies go to its broker"
            spec["reply"] = {"uri": subscription.reply} if isinstance(subscription.reply, str) else subscription.reply
        if subscription.delivery is not None:
            spec["delivery"] = subscription.delivery
        annotations = {ORDER: subscription.order, **subscription.annotations}
        self._write(f"{self.channel}-{subscription.name}", self.kind, subscription.name, annotations, spec=spec)

    def remove(self, name: str) -> None:
        (self.folder / f"{self.channel}-{name}.yaml").unlink()

    def _write(self, file: str, kind: str, name: str, annotations: dict[str, str], **content: object) -> None:
        metadata = {"namespace": NAMESPACE, "name": name, **({"annotations": annotations} if annotations else {})}
        text = yaml.safe_dump({"apiVersion": _VERSIONS[kind], "kind": kind, "metadata": metadata, **content})
        self.folder.mkdir(parents=True, exist_ok=True)
        # A file appears whole or not at all, as an editor that saves properly does it.
        new = self.folder / f".{file}.yaml.new"
        new.write_text(text)
        new.rename(self.folder / f"{file}.yaml")
