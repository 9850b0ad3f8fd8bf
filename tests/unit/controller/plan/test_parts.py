"""Decisions about the part of a world that a change can touch are those about the whole, over random changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.plan.actions import (
    Action,
    AnyObject,
    ClusterView,
    DeleteTopic,
    GroupState,
    RecordCreations,
    World,
    WriteStatus,
)
from controller.plan.parts import Parts
from controller.plan.reconcile import reconcile
from knative.contract.leader_state import Removal
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules, Subscriber
from tests.unit.controller.worlds import (
    CONFIG_REF,
    NOW,
    Kafka,
    broker,
    channel,
    config_map,
    kafka_with_ingress,
    serving,
    subscription,
    trigger,
)


def to(kind: str, name: str) -> Destination:
    api = {"KafkaChannel": "messaging.knative.dev/v1", "Broker": "eventing.knative.dev/v1"}.get(kind, "v1")
    return Destination(ref=Ref(api, kind, "", name))


def dead(kind: str, name: str) -> dict[str, Any]:
    return {"delivery": DeliveryRules(dead_letter_sink=to(kind, name))}


ENTRY = Subscriber("s-mine", "mine", 1, Destination(uri="http://entry/"))
LATER = replace(ENTRY, uid="e-1", name="entry", subscriber=to("KafkaChannel", "b"))
#: What may be there, in several states each; all of one uid or name exclude each other.
OBJECTS: list[AnyObject] = [
    channel("a"),
    channel("a", 2, partitions=3),
    channel("a", uid="c-a2"),
    channel("a", subscribers=(ENTRY, LATER)),
    channel("a", hosts=("h.test",), **dead("KafkaChannel", "b")),
    channel("b"),
    channel("b", hosts=("h.test", "a-kn-channel.default.svc.cluster.local")),
    channel("b", keep_topic=True),
    broker("main", config=CONFIG_REF),
    broker("main", 2, hosts=("h.test",)),
    broker("main", uid="b-main2"),
    broker("main", external_topic="knative-messaging-kafka.default.a"),
    broker("other", external_topic="knative-messaging-kafka.default.b.dlq", **dead("Broker", "main")),
    broker("other", class_="Other"),
    config_map(partitions="2"),
    config_map(partitions="many"),
    subscription("mine", "a"),
    subscription("mine", "b", 2, reply=to("KafkaChannel", "a")),
    subscription("yours", "a", subscriber=to("Service", "s"), **dead("KafkaChannel", "b")),
    subscription("yours", "missing"),
    trigger("one"),
    trigger("one", generation=2, subscriber=to("Service", "s")),
    trigger("two", "other", subscriber=to("Broker", "main")),
    trigger("two", uid="t-two2", **dead("KafkaChannel", "a")),
]
SERVICE = {Ref("v1", "Service", "default", "s"): Addressable("")}
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(range(len(OBJECTS)))),
    st.tuples(st.just("drop"), st.sampled_from(range(len(OBJECTS)))),
    st.tuples(st.just("act"), st.integers(1, 6)),
    st.tuples(st.just("settle"), st.just(0)),
    st.tuples(st.just("serve"), st.integers(0, 7)),
    st.tuples(st.just("fail"), st.integers(0, 3)),
    st.tuples(st.just("lose"), st.integers(0, 5)),
)


@dataclass
class Run:
    """The objects that exist, and the parts that follow them."""

    kafka: Kafka = field(default_factory=kafka_with_ingress)
    objects: dict[tuple[str, str, str], AnyObject] = field(default_factory=dict)
    parts: Parts = field(init=False)
    more: dict[str, Any] = field(default_factory=dict)
    before: World = field(init=False)

    def __post_init__(self) -> None:
        self.parts = Parts(self.kafka.config)
        self.more = {"cluster": ClusterView(SERVICE), "missing_is_deleted": True}
        self.before = self.whole()

    def whole(self) -> World:
        return self.kafka.look(*self.objects.values(), **self.more)

    def step(self, what: str, number: int) -> set[str]:
        """Change something; the uids that are dirty."""
        world = self.kafka.world
        if what in ("put", "drop"):
            return self._put(OBJECTS[number], present=what == "put")
        if what == "serve":
            records = [record for place, record in enumerate(world.subscriptions.values()) if number >> place & 1]
            old = self.more.get("workers", {})
            self.more["workers"] = serving(*records)
            rows = [worker.subscriptions for worker in (*old.values(), *self.more["workers"].values())]
            return {uid for row in rows for uid in row}
        if what == "fail":
            return self._fail(number)
        if what == "lose":
            topic = next(iter(sorted(self.kafka.topics)[number:]), "")
            self.kafka.topics.pop(topic, None)
            return self.parts.claiming([topic])
        for _ in range(30 if what == "settle" else 1):
            self.kafka.record(*self.objects.values(), **self.more)
            actions = self.kafka.decide(*self.objects.values(), **self.more)
            for action in actions if what == "settle" else actions[:number]:
                self.kafka.groups = dict.fromkeys(self.kafka.groups, GroupState.EMPTY)
                if not isinstance(action, DeleteTopic) or action.topic in self.kafka.topics:
                    self.kafka.act(action)
            if not actions:
                break
        return self.topics() | set(world.creations) | set(self.kafka.world.creations)

    def _put(self, resource: AnyObject, *, present: bool) -> set[str]:
        old = [other for other in self.objects.values() if other.key == resource.key or other.uid == resource.uid]
        for other in old:
            del self.objects[other.key]
        if present:
            self.objects[resource.key] = resource
        return {resource.uid, *(other.uid for other in old)}

    def _fail(self, number: int) -> set[str]:
        old = self.more.get("failures", {})
        actions = self.kafka.decide(*self.objects.values(), **{**self.more, "failures": {}})
        failures = {action.target: "no right" for action in actions[:number]}
        self.more["failures"] = failures
        return self.parts.concerned({*old, *failures})

    def topics(self) -> set[str]:
        """Whose topics or groups are there now and were not, or the other way round."""
        observed, now = self.before.observed, self.whole().observed
        return self.parts.changed_in_kafka(observed, now)

    def check(self, what: str, number: int) -> None:
        dirty = self.step(what, number)
        focus = self.parts.touched(dirty)
        published: dict[str, Channel | Subscription] = {
            **self.kafka.world.channels,
            **self.kafka.world.subscriptions,
        }
        changed = self.parts.differences(published, self.kafka.world.removals)
        focus |= self.parts.touched(changed)
        self.parts.follow(published, self.kafka.world.removals)
        for uid in dirty:
            resource = next((each for each in self.objects.values() if each.uid == uid), None)
            self.parts.put_object(uid, resource)
        after = self.whole()
        dirty |= changed | self.parts.changed_in_kafka(self.before.observed, after.observed)
        focus |= self.parts.touched(dirty)
        others = frozenset(_uids(self.before) | _uids(after)) - focus
        template = replace(after, objects=())
        part = self.parts.world(template, focus)
        config = self.kafka.config
        expected = reconcile(replace(after, only=frozenset(focus)), config)
        assert _sorted(reconcile(part, config)) == _sorted(expected)
        creations = self._creations(part, after)
        assert creations == _creations(expected, after.creations)
        for_others = [reconcile(replace(world, only=others), config) for world in (self.before, after)]
        assert _sorted(for_others[0]) == _sorted(for_others[1])
        assert _sorted(reconcile(after, config)) == _sorted([*expected, *for_others[1]])
        self.kafka.world = replace(self.kafka.world, creations=creations)  # the service records them before it acts
        self.before = self.whole()

    def _creations(self, part: World, whole: World) -> dict[str, Removal]:
        rest = {uid: creation for uid, creation in whole.creations.items() if uid not in part.creations}
        return {**rest, **_creations(reconcile(part, self.kafka.config), part.creations)}


def _creations(actions: Iterable[Action], before: Any) -> dict[str, Removal]:
    records = [action for action in actions if isinstance(action, RecordCreations)]
    return {creation.uid: creation for creation in records[0].creations} if records else dict(before)


def _sorted(actions: Iterable[Action]) -> list[str]:
    return sorted(repr(action) for action in actions if not isinstance(action, RecordCreations))


def _uids(world: World) -> set[str]:
    entries = {entry.uid for each in world.objects for entry in getattr(each.resource, "subscribers", ())}
    objects = {each.uid for each in world.objects}
    return {*objects, *entries, *world.channels, *world.subscriptions, *world.removals, *world.creations}


@settings(max_examples=settings().max_examples * 3)
@given(st.lists(STEPS, max_size=20))
def test_part_is_decided_as_in_the_whole(steps: list[tuple[str, int]]) -> None:
    run = Run()
    for what, number in steps:
        run.check(what, number)


def test_change_of_a_trigger_touches_no_other() -> None:
    run = Run()
    for number, resource in enumerate(OBJECTS):
        if resource in (broker("main", config=CONFIG_REF), config_map(partitions="2"), trigger("one")):
            run.check("put", number)
    run.check("settle", 0)
    assert set(run.kafka.world.subscriptions) == {"t-one"}
    others = [trigger(f"x{number}") for number in range(100)]
    for other in others:
        run.objects[other.key] = other
        run.parts.put_object(other.uid, other)
    run.check("settle", 0)
    assert len(run.kafka.world.subscriptions) == 101
    focus = run.parts.touched({"t-one"})
    assert focus == {"t-one"}
    assert run.parts.context(focus) == {"t-one", "b-main", "m-config"}
    assert len(run.parts.touched({"b-main"})) == 102
    assert run.before.now == NOW
    assert all(isinstance(action, WriteStatus) for action in reconcile(run.before, run.kafka.config))
