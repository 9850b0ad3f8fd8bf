"""Worlds with a subscription whose offsets are moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.seeks import SeekPhase
from tests.unit.controller.worlds import Kafka, channel, subscription

UID = "s-billing"
GROUP = f"kafka.{UID}"
OBJECTS = (channel(partitions=2), subscription())


def served(**fields: Any) -> Kafka:
    """A Kafka in which the subscription is served, at 5 and 7 of logs that end at 9."""
    kafka = Kafka(**fields)
    kafka.settle(*OBJECTS)
    kafka.offsets[GROUP], kafka.ends = {0: 5, 1: 7}, {0: 9, 1: 9}
    return kafka


def working(
    kafka: Kafka, state: WorkerState = WorkerState.STOPPED, reason: str = "r-again", name: str = "w"
) -> WorkerStatus:
    """A worker that reports this of the subscription."""
    generation = kafka.world.subscriptions[UID].generation
    return WorkerStatus(name, kafka.world.now, "all", {UID: WorkerSubscription(generation, (), state, reason)})


def seen(kafka: Kafka, *workers: WorkerStatus, **more: Any) -> None:
    """The leader sees these workers."""
    kafka.world = replace(kafka.world, workers={worker.worker: worker for worker in workers}, **more)


def phase(kafka: Kafka, id_: str = "r-again") -> SeekPhase:
    """How far the seek is."""
    return kafka.world.seeks[id_].phase
