"""A controller that is killed at each step of creating and deleting: the next one ends up with what the resources say.

two channels and their subscriptions -> created until one step -> killed -> `goes` deleted -> the next controller
-> all is as it should be -> `goes` again -> deleted until one step -> killed -> the next controller
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from controller.plan.actions import GroupState
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.groups import group_states
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster
from tests.support.processes import Child

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

Fault = tuple[str, str]
#: Where the first controller is killed, and where the second.
STEPS: list[tuple[Fault, Fault]] = [
    (("kill-before", "CreateTopic"), ("kill-before", "Remember")),
    (("kill-after", "CreateTopic"), ("kill-after", "Remember")),
    (("kill-before", "PublishChannel"), ("kill-after", "Retract")),
    (("kill-after", "PublishChannel"), ("kill-after", "DeleteGroup")),
    (("kill-after", "CommitStart"), ("kill-after", "DeleteTopic")),
    (("kill-before", "PublishSubscription"), ("kill-before", "Forget")),
    (("kill-after", "PublishSubscription"), ("kill-after", "Forget")),
]
LIMIT_S = 300.0
KILLED = -9


class Scene:
    """One installation, in which `stays` stays. `goes` is first in every order."""

    def __init__(self, kube: KubeCluster, kafka: EmbeddedKafka, folder: Path) -> None:
        self.penstock = PenstockInCluster(kube, kafka.bootstrap, folder)
        self.admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
        self.groups: list[str] = []  #: of all subscriptions that went
        self.child: Child | None = None
        self.add("goes")
        self.add("stays")

    def add(self, name: str) -> None:
        self.penstock.channel(name)
        made = self.penstock.subscription(f"of-{name}", name, {"uri": "http://127.0.0.1:9/"})
        if name == "goes":
            self.groups.append(f"kafka.{made['metadata']['uid']}")

    def delete(self) -> None:
        """Ask for `goes` to be deleted."""
        self.penstock.delete("Subscription", "of-goes")
        self.penstock.delete("KafkaChannel", "goes")

    def start(self, fault: Fault = ("none", "")) -> None:
        self.child = self.penstock.command("controller", "--once", "--timeout", str(LIMIT_S), fault=fault)

    def ends(self, code: int) -> None:
        assert self.child is not None
        assert self.child.wait(LIMIT_S) == code, self.child.tail()

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()

    def check(self, *served: str) -> None:
        """Exactly these are served, and nothing else is left anywhere."""
        penstock = self.penstock
        gone = {"goes", "stays"} - set(served)
        assert {name for name in ("goes", "stays") if penstock.exists(name)} == set(served)
        for name in served:
            assert penstock.is_published(name)
            assert penstock.condition("Subscription", f"of-{name}", "AddedToChannel") == ("True", "")
        for name in gone:
            assert not penstock.exists(f"of-{name}", "Subscription")
        topics = {name: {penstock.topic(name), f"{penstock.topic(name)}.dlq"} for name in ("goes", "stays")}
        expected = {topic for name in served for topic in topics[name]}
        assert observe_topics(self.admin, topics["goes"] | topics["stays"]).keys() == expected
        left = self.groups[:-1] if "goes" in served else self.groups
        assert set(group_states(self.admin, left or ["none"]).values()) == {GroupState.ABSENT}


def test_controller_is_killed_at_each_step(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """All at once: each waits for a Lease and a session to end, most of the time."""
    scenes = [Scene(kube, kafka, tmp_path / f"scene-{number}") for number in range(len(STEPS))]
    try:
        for scene, (creating, _) in zip(scenes, STEPS, strict=True):
            scene.start(creating)
        for scene in scenes:
            scene.ends(KILLED)
            scene.delete()
            scene.start()
        for scene in scenes:
            scene.ends(0)
            scene.check("stays")
            scene.add("goes")
            scene.start()
        for scene in scenes:
            scene.ends(0)
            scene.check("goes", "stays")
        for scene, (_, deleting) in zip(scenes, STEPS, strict=True):
            scene.delete()
            scene.start(deleting)
        for scene in scenes:
            scene.ends(KILLED)
            scene.start()
        for scene in scenes:
            scene.ends(0)
            scene.check("stays")
    finally:
        for scene in scenes:
            scene.stop()
