"""Rows for `test_conditions`: a situation of one object, and all conditions of its status.

A row's text has the conditions in the order of the status: `Type Status Reason`, the reason only if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.plan.actions import AnyObject, ClusterView, GroupState, ObservedTopic, WriteStatus
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.delivery.policy import Addressable
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules
from tests.unit.controller.worlds import BROKER_DLQ, BROKER_TOPIC, NOW, TOPIC, Kafka, kafka_with_ingress, serving


@dataclass(frozen=True)
class Row:
    """`objects`: the first one is looked at. `first`: those that were served before, None = the same objects; () =
    nothing was."""

    name: str
    text: str
    objects: tuple[AnyObject, ...]
    first: tuple[AnyObject, ...] | None = ()
    topics: Mapping[str, ObservedTopic] | None = None
    change: Callable[[Kafka], object] | None = None  #: of what there is, before the look
    more: Mapping[str, Any] | None = None  #: of the world
    workers: Callable[[Kafka], Mapping[str, WorkerStatus]] | None = None
    config: Mapping[str, Any] | None = None  #: settings that differ

    def status(self) -> WriteStatus:
        """The status of the first object."""
        kafka = kafka_with_ingress()
        kafka.config = replace(kafka.config, **(self.config or {}))
        kafka.topics.update(self.topics or {})
        first = self.objects if self.first is None else self.first
        if first:
            kafka.settle(*first)
        if self.change is not None:
            self.change(kafka)
        more = dict(self.more or {})
        if self.workers is not None:
            more["workers"] = self.workers(kafka)
        return kafka.status(*self.objects, **more)


def refers(kind: str = "Service", name: str = "billing") -> Destination:
    """A ref to another object."""
    api = {"Service": "v1", "KafkaChannel": "messaging.knative.dev/v1beta1"}.get(kind, "eventing.knative.dev/v1")
    return Destination(ref=Ref(api, kind, "", name))


def sink(destination: Destination) -> DeliveryRules:
    """A delivery with this dead letter sink."""
    return DeliveryRules(dead_letter_sink=destination)


def reports(state: WorkerState, reason: str = "", generation: int = 0, beside: bool = False) -> Any:
    """What one worker reports about all subscriptions. `beside`: another one serves them."""

    def made(kafka: Kafka) -> Mapping[str, WorkerStatus]:
        rows = {
            subscription.uid: WorkerSubscription(generation or subscription.generation, (), state, reason)
            for subscription in kafka.world.subscriptions.values()
        }
        others = serves(kafka) if beside else {}
        return {**others, "v": WorkerStatus("v", NOW, "all", rows)}

    return made


def serves_in_part(kafka: Kafka) -> Mapping[str, WorkerStatus]:
    """A worker that serves all subscriptions, but whose filters could not judge some events."""
    return {
        name: replace(
            status,
            subscriptions={uid: replace(row, filter_problem="too long") for uid, row in status.subscriptions.items()},
        )
        for name, status in serves(kafka).items()
    }


def serves(kafka: Kafka) -> Mapping[str, WorkerStatus]:
    """A worker that serves all subscriptions."""
    return serving(*kafka.world.subscriptions.values())


def served_long_ago(kafka: Kafka) -> Mapping[str, WorkerStatus]:
    """One whose record is too old."""
    return serving(*kafka.world.subscriptions.values(), time=NOW - 11.0)


def fails(*targets: str) -> Mapping[str, Any]:
    """Actions of these targets have failed."""
    return {"failures": dict.fromkeys(targets, "no right")}


def sees(
    addresses: Mapping[Ref, Addressable | None] | None = None,
    unknown: Mapping[tuple[str, str], str] | None = None,
    loading: frozenset[tuple[str, str]] = frozenset(),
    refused: Mapping[tuple[str, str, str], str] | None = None,
) -> Mapping[str, Any]:
    """In a cluster that shows this."""
    return {"cluster": ClusterView(addresses or {}, unknown or {}, loading, refused or {})}


def begin_to_remove(*left: AnyObject) -> Callable[[Kafka], object]:
    """The removal of all but these is recorded and retracted; a worker still reads, and a member keeps each group."""

    def change(kafka: Kafka) -> None:
        kafka.world = replace(kafka.world, workers=serves(kafka))
        kafka.groups = dict.fromkeys(kafka.groups, GroupState.LIVE)
        kafka.settle(*left)

    return change


def note_removal(*left: AnyObject) -> Callable[[Kafka], object]:
    """The removal of all but these is recorded."""

    def change(kafka: Kafka) -> None:
        for action in kafka.decide(*left):
            kafka.act(action)

    return change


def topic(name: str, **fields: Any) -> Callable[[Kafka], object]:
    """This topic is another one now."""
    return lambda kafka: kafka.topics.update({name: replace(kafka.topics[name], **fields)})


LONG = "x" * 230  #: a name for which the topic name is too long
NO_INGRESS = {"ingress_url": ""}
AWAY = {"unavailable": "no broker answers"}
MISSING_SINK = sink(refers("KafkaChannel", "failed"))
CREATED = {name: ObservedTopic(1, 1) for name in (TOPIC, f"{TOPIC}.dlq", BROKER_TOPIC, BROKER_DLQ)}
