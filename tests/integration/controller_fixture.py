"""One controller on a real Kafka, with a directory and an instance of its own, and what it made of its files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from controller.config import ControllerConfig
from controller.kafka.internal_topics import ensure_internal_topics
from controller.kafka.offsets import Offsets
from controller.kafka.topics import observe_topics
from controller.service import Controller
from knative.contract import kafka_names
from knative.contract.records import Channel, RemovalRequest, Subscription
from tables.contract_table import ContractTable
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import StatusTable, encode_request
from tests.support.fakes import CountingObserve
from tests.support.resources import read_status

LIMIT_S = 180.0

CHANNEL = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata: {{name: {name}{more}}}
spec: {{numPartitions: {partitions}}}
"""
SUBSCRIPTION = """\
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata:
  name: {name}
  annotations: {{penstock.dev/start: {start}}}
spec:
  channel: {{apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, name: {channel}}}
  subscriber: {{uri: "{uri}"}}
"""


class ControllerFixture:
    """One controller with its tables and producer, on a directory of its own and an instance of its own."""

    def __init__(self, bootstrap: str, folder: Path, instance: str, ingress_url: str = "") -> None:
        self.folder = folder / "resources"
        self.state = folder / "state"
        self.folder.mkdir(parents=True, exist_ok=True)
        client = {"bootstrap.servers": bootstrap}
        self.config = ControllerConfig(
            kafka=client,
            resources_dir=self.folder,
            state_dir=self.state,
            instance=instance,
            topic_template=f"{instance}-t.{{namespace}}.{{name}}",
            broker_template=f"{instance}-b.{{namespace}}.{{name}}",
            ingress_url=ingress_url,
            session_timeout_s=6.0,
        )
        self.crashes: list[BaseException] = []
        self.contract = ContractTable(self.config.contract_topic, client, self.crashes.append)
        self.status = StatusTable(kafka_names.status_topic(instance), client, self.crashes.append)
        self.producer = KafkaProducer(ProducerConfig(kafka=client, name=instance), CountingObserve())
        self.controller = Controller(self.config, self.contract, self.status, self.producer, self.crashes.append)
        self.admin = KafkaAdmin(client, 180.0)
        self.offsets = Offsets(self.admin, 180.0)

    async def __aenter__(self) -> ControllerFixture:
        await ensure_internal_topics(self.config)
        await self.producer.start()
        self.contract.start()
        self.status.start()
        await self.controller.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.controller.stop()
        await self.contract.stop()
        await self.status.stop()
        await self.producer.stop(5.0)
        assert self.crashes == []

    def channel(self, name: str, partitions: int = 1, more: str = "") -> None:
        text = CHANNEL.format(name=name, partitions=partitions, more=more)
        (self.folder / f"{name}.yaml").write_text(text, "utf-8")

    def subscription(self, name: str, channel: str, start: str = "latest", uri: str = "http://127.0.0.1:9/") -> None:
        text = SUBSCRIPTION.format(name=name, channel=channel, start=start, uri=uri)
        (self.folder / f"{name}.yaml").write_text(text, "utf-8")

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.yaml").unlink()

    async def ask(self, *names: str) -> None:
        """Ask for the removal of resources, once no file has them, as the command does."""
        await self.until(lambda: all(map(self.unlisted, names)), f"{names} are in no file")
        for name in names:
            key, value = encode_request(RemovalRequest(self.published(name).uid, time.time()))
            self.producer.send(kafka_names.status_topic(self.config.instance), value, key, [], lambda _: None, 0)

    def topic(self, name: str) -> str:
        return f"{self.config.instance}-t.default.{name}"

    def published(self, name: str) -> Any:
        every: list[Channel | Subscription] = [*self.contract.channels.values(), *self.contract.subscriptions.values()]
        return next((record for record in every if record.name == name), None)

    def unlisted(self, name: str) -> bool:
        record = self.published(name)
        return record is not None and bool(record.unlisted)

    def said(self, kind: str, name: str) -> dict[str, Any]:
        return read_status(self.state / kind / f"default.{name}.json")

    def condition(self, kind: str, name: str, type_: str = "Ready") -> tuple[str, str]:
        for condition in self.said(kind, name).get("status", {}).get("conditions", []):
            if condition["type"] == type_:
                return condition["status"], condition.get("reason", "")
        return "", ""

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not holds():
            assert not self.crashes, self.crashes
            assert time.monotonic() < end, f"waited {LIMIT_S} s for: {what}"
            await asyncio.sleep(0.05)

    async def gone(self, topic: str) -> None:
        """Wait until there is no such topic."""
        end = time.monotonic() + LIMIT_S
        while await self.look(topic) is not None:
            assert time.monotonic() < end, f"waited {LIMIT_S} s for the end of {topic}"
            await asyncio.sleep(0.1)

    async def there(self, topic: str) -> Any:
        """Wait until there is such a topic, which a broker may know a moment after it is created; what it is like."""
        end = time.monotonic() + LIMIT_S
        while (info := await self.look(topic)) is None:
            assert time.monotonic() < end, f"waited {LIMIT_S} s for {topic}"
            await asyncio.sleep(0.1)
        return info

    async def look(self, name: str) -> Any:
        return (await asyncio.to_thread(observe_topics, self.admin, [name])).get(name)
