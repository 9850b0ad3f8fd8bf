"""Validates a directory of resources without Kafka: its files, and the references between its objects.

    files -> Directory -> objects -> reconcile, as if Kafka granted all -> False conditions -> file, line, field

The controller's own code does the checks, so valid resources are served unless Kafka rejects them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller.config import ControllerConfig
from controller.model import FileProblem
from controller.plan.actions import (
    Action,
    AnyObject,
    CommitStart,
    CreateTopic,
    ObservedKafka,
    ObservedTopic,
    PublishChannel,
    PublishSubscription,
    RecordCreations,
    RememberSeek,
    World,
    WriteStatus,
)
from controller.plan.reconcile import reconcile
from controller.source.directory import Directory, Written
from controller.source.identities import Identities
from knative.resources.brokers import BROKER_CLASS, KAFKA_CLASS
from knative.resources.conditions import ConditionStatus
from knative.resources.values import Broker, EventType

_ROUNDS_MAX = 20  #: each object needs three
#: Condition -> the field that it is about.
_FIELDS = {
    "TopicReady": "metadata.name",
    "Addressable": "metadata.annotations",
    "DeadLetterSinkResolved": "spec.delivery.deadLetterSink",
    "ReferencesResolved": "spec",
    "BrokerReady": "spec.broker",
    "SubscriberResolved": "spec.subscriber",
    "RefMapped": "spec.ref",
}
#: Reason -> the field, if it is another one than that of its condition.
_FIELDS_OF_REASONS = {
    "ChannelNotFound": "spec.channel.name",
    "ConfigMapNotFound": "spec.config",
    "ConfigMapInvalid": "spec.config",
    "TimeInFuture": "spec.offset.time",
}


@dataclass(frozen=True, slots=True)
class Found:
    """The objects of a directory, and its problems. A problem with `ignored` but not `suspected_typo` is a warning."""

    objects: tuple[Written, ...]
    problems: tuple[FileProblem, ...]

    @property
    def errors(self) -> tuple[FileProblem, ...]:
        """The problems that keep a resource from being served as its author intended."""
        return tuple(problem for problem in self.problems if problem.suspected_typo or not problem.ignored)


def validate(config: ControllerConfig) -> Found:
    """Read the directory of the config once. Raises UsageError when there is none."""
    directory = Directory(config.resources_dir)
    directory.check()
    snapshot = directory.scan()
    objects = Identities().assign(snapshot, (), ())
    world = World(objects=objects, observed=_there_already(objects), now=time.time())
    written = {object_.key: object_ for object_ in snapshot.objects}
    problems = [*snapshot.problems, *_other_classes(snapshot.objects), *_of_nothing(snapshot.objects)]
    # Brokers have addresses only where an ingress is; which one is not a matter of the files.
    for action in _settle(world, replace(config, ingress_url=config.ingress_url or "http://ingress")):
        if isinstance(action, WriteStatus):
            problems += _refused(action, written[action.kind, action.namespace, action.name])
    return Found(
        snapshot.objects,
        tuple(sorted(problems, key=lambda file_problem: (file_problem.file, file_problem.line, file_problem.field))),
    )


def _other_classes(objects: Iterable[Written]) -> list[FileProblem]:
    """Returns a warning for each Broker that is left alone for its class. Its Triggers wait for the same annotation."""
    problems = []
    for written in objects:
        broker = written.resource
        if isinstance(broker, Broker) and broker.class_ != KAFKA_CLASS:
            which = f"of the class {broker.class_!r}" if broker.class_ else "without a class"
            what, hint = f"a Broker {which} is not served", f"write the annotation {BROKER_CLASS}: {KAFKA_CLASS}"
            place = "metadata.annotations"
            problems.append(
                FileProblem(written.file, written.line, place, what, hint, ignored=True, object=str(written))
            )
    return problems


def _of_nothing(objects: Iterable[Written]) -> list[FileProblem]:
    """Returns a warning for each EventType of a channel or Broker that is in no file."""
    keys = {written.key for written in objects}
    problems = []
    for written in objects:
        declared = written.resource
        if isinstance(declared, EventType) and declared.channel not in keys:
            named = declared.channel
            what = f"there is no {named[0]} {named[1]}/{named[2]} here" if named else "it names no channel or Broker"
            hint = "name a KafkaChannel or a Broker of this directory; nothing is compared with it now"
            place, about = declared.field, str(written)
            problems.append(FileProblem(written.file, written.line, place, what, hint, ignored=True, object=about))
    return problems


def _there_already(objects: Iterable[AnyObject]) -> ObservedKafka:
    """Returns the topics that brokers name instead of having one created."""
    brokers = (object_.resource for object_ in objects if isinstance(object_.resource, Broker))
    return ObservedKafka(
        topics={broker.external_topic: ObservedTopic(1, 1) for broker in brokers if broker.external_topic}
    )


def _settle(world: World, config: ControllerConfig) -> list[Action]:
    """Returns the statuses after a Kafka that grants everything has carried out all actions."""
    for _ in range(_ROUNDS_MAX):
        actions = reconcile(world, config)
        steps = [action for action in actions if not isinstance(action, RecordCreations | WriteStatus)]
        if not steps:
            break
        for step in steps:
            world = _granted(world, step)
    return actions


def _granted(world: World, step: Action) -> World:
    seen = world.observed
    if isinstance(step, CreateTopic):
        topic = ObservedTopic(step.partitions, step.replication, dict(step.configs))
        return replace(world, observed=replace(seen, topics={**seen.topics, step.topic: topic}))
    if isinstance(step, CommitStart):
        committed = {**seen.committed, step.group: frozenset(step.partitions)}
        return replace(world, observed=replace(seen, committed=committed))
    if isinstance(step, PublishChannel):
        return replace(world, channels={**world.channels, step.channel.uid: step.channel})
    if isinstance(step, PublishSubscription):
        subscription = step.subscription
        return replace(world, subscriptions={**world.subscriptions, subscription.uid: subscription})
    if isinstance(step, RememberSeek) and step.seek.is_over:
        return replace(world, seeks={**world.seeks, step.seek.id: step.seek})
    return world  # other actions change or remove existing things, and here everything is new


def _refused(status: WriteStatus, written: Written) -> list[FileProblem]:
    return [
        FileProblem(written.file, written.line, _field(part.type, part.reason), part.message, "", object=str(written))
        for part in status.conditions
        if part.type in _FIELDS and part.status is ConditionStatus.FALSE
    ]


def _field(condition: str, reason: str) -> str:
    return _FIELDS_OF_REASONS.get(reason, _FIELDS[condition])
