"""What the facts about Kafka mean: whether it answers, its release, its clock. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from app.operations.doctor.check import Check, clock, ok, problem, warning
from app.operations.plural import count
from knative.urls import is_loopback
from tables.kafka.connection.probe import split_address

NAME, CLOCK, ON_DEMAND = "Kafka", "clock of Kafka", "topics on demand"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The newest time that a broker has written, and when this machine saw it. Unix seconds."""

    written_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """`problem`: why it does not answer, with `hint`; then all else is empty."""

    bootstrap: str
    problem: str = ""
    hint: str = ""
    brokers: int = 0
    release: str = ""  #: "" = not known
    clock: Sequence[ClockReading] = ()
    creates_topics: bool | None = None  #: whether it creates topics that a client asks for; None = not known
    controllers: int | None = None  #: members of the controllers' lock group; None = not known


def kafka_checks(facts: KafkaFacts, group_protocol: str) -> list[Check]:
    """Whether it answers; its release; its clock."""
    if facts.problem:
        return [problem(NAME, facts.problem, facts.hint)]
    release = facts.release or "of an unknown release"
    found = f"Kafka {release} at {facts.bootstrap}, {count(facts.brokers, 'broker')}"
    if group_protocol == "consumer" and facts.release.startswith("3."):
        hint = "set PENSTOCK_GROUP_PROTOCOL=classic, or use Kafka 4.0 or newer"
        return [problem(NAME, f"{found}, which has no group protocol `consumer`", hint), kafka_clock(facts.clock)]
    return [ok(NAME, found), *_on_demand(facts), kafka_clock(facts.clock)]


def _on_demand(facts: KafkaFacts) -> list[Check]:
    if not facts.creates_topics:
        return []
    hint = (
        "set auto.create.topics.enable=false on its brokers, or stop the other clients of a topic before you remove "
        "its channel; Penstock's own clients create none"
    )
    return [warning(ON_DEMAND, "this Kafka creates each topic that a client asks for, also a removed one", hint)]


def kafka_clock(readings: Sequence[ClockReading]) -> Check:
    """From what brokers wrote while somebody looked. A time in the future tells as much as one that has just come."""
    whose = "the clock of Kafka"
    for before, after in itertools.pairwise(readings):
        if after.written_s > before.written_s:
            return clock(CLOCK, whose, after.written_s - (before.seen_s + after.seen_s) / 2)
    if readings and readings[-1].written_s > readings[-1].seen_s:
        return clock(CLOCK, whose, readings[-1].written_s - readings[-1].seen_s)
    return ok(CLOCK, "not measured: nothing could be committed in a group of its own")


def on_this_machine(bootstrap: str) -> bool:
    """Whether all of these brokers have loopback addresses."""
    return all(is_loopback(split_address(one.strip())[0]) for one in bootstrap.split(","))
