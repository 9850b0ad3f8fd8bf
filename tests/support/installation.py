"""One installation of Penstock for a test or a measurement: its resources, its workers, and what Kafka says of it.

Each has a name of its own for internal topics, and its channel's name is its own too, so that any number of them share
a Kafka without seeing each other.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from knative.delivery.policy import DeliveryOrder
from tests.support.ledger import reader
from tests.support.ledger.facts import Sent
from tests.support.ledger.history import Rule, every_event
from tests.support.processes import LoadProcess, Worker, get, penstock, wait_until
from tests.support.resources import NAMESPACE, Resources, Wanted, read_status


@dataclass(slots=True)
class Installation:
    """One channel of it, or one broker; `folder` holds everything: resources, states, logs. `beside` gives another
    channel or broker."""

    bootstrap: str
    folder: Path
    partitions: int = 1
    name: str = field(default_factory=lambda: f"i{uuid.uuid4().hex[:8]}")
    env: dict[str, str] = field(default_factory=dict)
    channel: str = "ch"
    replication: int = 1
    is_broker: bool = False
    secret: str = ""  #: of the broker

    def beside(self, channel: str, partitions: int = 1) -> Installation:
        """The same installation, seen from another channel."""
        return replace(self, channel=channel, partitions=partitions)

    @property
    def resources(self) -> Resources:
        """The directory that the worker with the controller watches; no other installation has a channel so named."""
        name = f"{self.channel}-{self.name}"
        return Resources(self.folder / "resources", name, self.replication, self.is_broker, self.secret)

    @property
    def state(self) -> Path:
        """Where the controller writes statuses."""
        return self.folder / "state"

    def write(self, subscriptions: Iterable[Wanted], delivery: dict[str, Any] | None = None) -> None:
        """The channel and these Subscriptions, or the broker and these Triggers."""
        self.resources.write_channel(self.partitions, delivery)
        for subscription in subscriptions:
            self.resources.write(subscription)

    def worker(self, role: str = "all", *, controller: bool = True, env: Mapping[str, str] | None = None) -> Worker:
        """A started worker; `controller`: it also watches the resources."""
        own = {"PENSTOCK_INSTANCE": self.name, "PENSTOCK_STATE_DIR": str(self.state)}
        settings = {**own, "PENSTOCK_BIND": "127.0.0.1", "PENSTOCK_LOG_FORMAT": "json", **self.env, **(env or {})}
        resources = self.resources.folder if controller else None
        return Worker(role, self.bootstrap, self.folder, resources, settings)

    def penstock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the CLI that looks at this installation, to its end."""
        return penstock(*arguments, settings={"PENSTOCK_KAFKA": self.bootstrap, "PENSTOCK_INSTANCE": self.name})

    def delete(self, *names: str) -> None:
        """Remove the files of Subscriptions or Triggers, and then the resources."""
        for name in names:
            self.resources.remove(name)

        def gone() -> bool:
            done = self.penstock("remove", "--unlisted", "--yes", "--timeout", "180")
            assert done.returncode == 0, done.stderr
            return not any(self.status(self.resources.kind, name) for name in names)

        wait_until(f"{names} are removed", gone, 180.0)

    def url(self, worker: Worker) -> str:
        """The channel's URL at this worker's ingress."""
        return f"http://127.0.0.1:{worker.port}{self.resources.path}"

    def wait_subscribers(self, worker: Worker, count: int, limit_s: float | None = None) -> None:
        """Until the channel has exactly `count` subscribers, all ready."""
        worker.wait_subscribers(self.resources.channel, count, limit_s)

    def wait_triggers(self, names: Iterable[str], limit_s: float = 180.0) -> None:
        """Until the status of each Trigger says that it is ready."""
        triggers = list(names)
        wait_until(f"Triggers {triggers} are ready", lambda: all(map(self._is_ready, triggers)), limit_s, poll_s=0.1)

    def _is_ready(self, name: str) -> bool:
        conditions = self.status(self.resources.kind, name).get("status", {}).get("conditions", ())
        return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)

    def observed(self, name: str) -> int:
        """The generation that the status of a Trigger is about; 0 = it has none."""
        return int(self.status(self.resources.kind, name).get("status", {}).get("observedGeneration", 0))

    def status(self, kind: str, name: str) -> dict[str, Any]:
        """The status file of an object; {} when there is none."""
        return read_status(self.state / kind / f"{NAMESPACE}.{name}.json")

    def uid(self, name: str) -> str:
        """The uid of a Subscription or Trigger."""
        return str(self.status(self.resources.kind, name)["metadata"]["uid"])

    def group(self, name: str) -> str:
        return f"kafka.{self.uid(name)}"

    def rule(self, subscription: Wanted, wants: Callable[[Sent], bool] = every_event) -> Rule:
        """What the checker holds a Subscription to; a Trigger to the events that it `wants`."""
        retry = int((subscription.delivery or {}).get("retry", 0))
        label = f"{NAMESPACE}/{subscription.name}"
        group, topic = self.group(subscription.name), self.resources.topic
        return Rule(label, DeliveryOrder(subscription.order), retry, group, topic, wants=wants)

    def ends(self) -> dict[int, int]:
        return reader.ends(self.bootstrap, self.resources.topic)

    def position(self, name: str) -> dict[int, int]:
        return reader.position(self.bootstrap, self.group(name), self.resources.topic, self.partitions)

    def _stands_at(self, name: str, ends: Mapping[int, int]) -> bool:
        try:
            return self.position(name) == ends
        except KafkaException:  # the coordinator has just moved, or is away
            return False

    def wait_settled(self, names: Iterable[str], limit_s: float) -> None:
        """Until each group's commits have reached the ends that the topic has now."""
        ends = self.ends()
        for name in names:
            what = f"{name} has settled everything, up to {ends}"
            wait_until(what, partial(self._stands_at, name, ends), limit_s, poll_s=0.5)

    def store(self, events: int, limit_s: float) -> None:
        """Have a worker store events in a new channel without Subscriptions, and stop it."""
        self.write([])
        with self.worker() as worker:
            worker.wait_ready()
            page = f"/subscribers/{NAMESPACE}/{self.resources.channel}"
            wait_until("the channel is served", lambda: get(worker.port, page)[0] == 200, limit_s)
            with LoadProcess(self.folder, self.url(worker), events=events, limit_s=limit_s) as load:
                assert load.result(limit_s)["accepted"] == events
            assert worker.terminate() == 0
