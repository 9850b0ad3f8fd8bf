"""What the facts about Kafka mean: whether it answers, its release, its clock. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.operations.doctor.check import Answer, clock, ok, problem, skipped, warning
from app.operations.plural import count
from knative.urls import is_loopback
from tables.kafka.connection.probe import split_address


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The newest time that a broker has written, and when this machine saw it. Unix seconds."""

    written_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """What Kafka says about itself."""

    bootstrap: str
    brokers: int = 0
    release: str | None = None  #: None = not known
    clock: Sequence[ClockReading] = ()
    creates_topics: bool | None = None  #: whether it creates topics that a client asks for; None = not known
    group_protocol: str = "classic"  #: as the setting says
    controllers: int | None = None  #: members of the controllers' lock group; None = not known


def release_of(facts: KafkaFacts) -> Iterable[Answer]:
    """Says whether it has what the settings ask for."""
    release = facts.release or "of an unknown release"
    text = f"Kafka {release} at {facts.bootstrap}, {count(facts.brokers, 'broker')}"
    if facts.group_protocol == "consumer" and release.startswith("3."):
        hint = "set PENSTOCK_GROUP_PROTOCOL=classic, or use Kafka 4.0 or newer"
        yield problem(f"{text}, which has no group protocol `consumer`", hint)
    else:
        yield ok(text)


def topics_on_demand(facts: KafkaFacts) -> Iterable[Answer]:
    """Warns only if it creates them."""
    if facts.creates_topics:
        hint = (
            "set auto.create.topics.enable=false on its brokers, or stop the other clients of a topic before you "
            "remove its channel; Penstock's own clients create none"
        )
        yield warning("this Kafka creates each topic that a client asks for, even a removed one", hint)


def clock_of(facts: KafkaFacts) -> Iterable[Answer]:
    """Compares it by what brokers wrote meanwhile. A time in the future tells as much as one that has just come."""
    whose, readings = "the clock of Kafka", facts.clock
    for before, after in itertools.pairwise(readings):
        if after.written_s > before.written_s:
            yield clock(whose, after.written_s - (before.seen_s + after.seen_s) / 2)
            return
    if readings and readings[-1].written_s > readings[-1].seen_s:
        yield clock(whose, readings[-1].written_s - readings[-1].seen_s)
    else:
        yield skipped("nothing could be committed in a group of its own")


def on_this_machine(bootstrap: str) -> bool:
    """Returns whether all of these brokers have loopback addresses."""
    return all(is_loopback(split_address(server.strip())[0]) for server in bootstrap.split(","))
