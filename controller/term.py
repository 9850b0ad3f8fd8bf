"""What a leader keeps from round to round of its term, and what has changed since it last decided."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from controller.model import FileProblem
from controller.plan.actions import ObservedKafka, Scope
from controller.plan.parts import Parts, changed
from controller.source.interface import Scan
from knative.contract.broker_secrets import SecretProblem
from knative.contract.records import WorkerStatus
from tables.status_table import FRESH_S

V = TypeVar("V")


@dataclass(slots=True)
class Term:
    """One term of leadership. Times without a unit in their comment are of a clock that never goes back."""

    number: int
    since: float = field(default_factory=time.time)  #: Unix seconds
    scan: Scan = field(default_factory=Scan)
    reported: Scan | None = None  #: whose problems were reported last
    begun: bool = False  #: the state that an earlier leader recorded is loaded
    wrong_place: tuple[FileProblem, ...] = ()  #: the problem that the cluster never had some published resources
    observed: ObservedKafka | None = None  #: None = Kafka must be asked before anything is decided
    topics: frozenset[str] = frozenset()  #: those that were asked about
    scanned_at: float = 0.0
    observed_at: float = 0.0
    reported_at: float = 0.0  #: the time of the last decision about statuses
    whole_at: float = 0.0  #: the time of the last decision about everything
    retry_at: float = float("inf")
    failed_tries: int = 0
    failure: str | None = None
    parts: Parts | None = None  #: None = the next decision is about everything
    dirty: set[str] = field(default_factory=set)  #: uids of what has changed
    queue: set[str] = field(default_factory=set)  #: uids that these changes touch, and that wait
    rest: set[str] = field(default_factory=set)  #: uids that have not changed, and that wait for their turn after these
    focus: set[str] = field(default_factory=set)  #: those of both that the present decision is about
    unwritten: frozenset[str] = frozenset()  #: uids whose status could not be written, or was put off
    secrets: Mapping[str, SecretProblem] = field(default_factory=dict)  #: of Brokers, as the last decision saw them
    ticked_at: float = 0.0  #: when workers and Secrets were last looked at
    look: bool = False  #: Kafka must be asked about them
    workers: Mapping[str, WorkerStatus] = field(default_factory=dict)  #: as the last decision saw them
    fresh: frozenset[str] = frozenset()  #: those that counted then

    @property
    def is_done(self) -> bool:
        """Whether no object waits for a decision."""
        return not self.dirty and not self.queue and not self.rest

    def take_turn(self, most: int, namespace_of: Callable[[str], str]) -> None:
        """Choose what the next decision is about, at most `most` objects, unless a decision is under way. What has
        changed comes first, and the namespaces take turns: one with much to do does not hold up the others."""
        if not self.focus:
            turns = itertools.chain(_by_turns(self.queue, namespace_of), _by_turns(self.rest, namespace_of))
            self.focus = set(itertools.islice(turns, most))
            self.queue -= self.focus
            self.rest -= self.focus

    def must_ask(self, asked: Scope) -> bool:
        """Returns whether Kafka must be asked before a decision that needs `asked`."""
        new = not asked.topics <= self.topics or bool(asked.starts or asked.groups)
        return self.observed is None or self.look or (new and self.parts is not None)

    def observe(self, asked: Scope, seen: ObservedKafka) -> None:
        """Add what Kafka said to what is known already."""
        before = self.observed or ObservedKafka()
        groups = {*asked.groups, *(group for group, _ in (*asked.starts, *asked.offsets))}
        fanouts = {topic for _, topic in asked.fanouts}
        self.observed = replace(
            before,
            topics=_merged(before.topics, asked.topics, seen.topics),
            committed=_merged(before.committed, groups, seen.committed),
            groups=_merged(before.groups, groups, seen.groups),
            offsets=_merged(before.offsets, groups, seen.offsets),
            unknown=_merged(before.unknown, groups, seen.unknown),
            fanouts=_merged(before.fanouts, fanouts, seen.fanouts),
        )
        self.topics |= asked.topics

    def see_workers(self, workers: Mapping[str, WorkerStatus], now: float) -> bool:
        """Mark subscriptions as dirty if what workers say about them has changed or is gone. `now`: Unix seconds.
        Returns whether what they say about Secrets has changed."""
        fresh = frozenset(name for name, worker in workers.items() if now - worker.time <= FRESH_S)
        secrets = False
        for name in self.workers.keys() | workers.keys():
            before, after = self.workers.get(name), workers.get(name)
            rows, others = (status.subscriptions if status is not None else {} for status in (before, after))
            if (name in fresh) is not (name in self.fresh):
                self.dirty |= rows.keys() | others.keys()
                secrets |= any(status is not None and bool(status.secrets) for status in (before, after))
            elif rows is not others:
                self.dirty |= changed(rows, others)
            secrets |= (before.secrets if before is not None else {}) != (after.secrets if after is not None else {})
        self.workers, self.fresh = dict(workers), fresh
        return secrets


def _merged(before: Mapping[str, V], asked: Collection[str], seen: Mapping[str, V]) -> Mapping[str, V]:
    if not asked:
        return before
    rest = {name: value for name, value in before.items() if name not in asked}
    return {**rest, **seen}


def _by_turns(uids: Iterable[str], namespace_of: Callable[[str], str]) -> Iterator[str]:
    """Returns the first one of each namespace, then the second one of each, and so on."""
    groups: dict[str, list[str]] = {}
    for uid in sorted(uids):
        groups.setdefault(namespace_of(uid), []).append(uid)
    rows = itertools.zip_longest(*groups.values())
    return (uid for row in rows for uid in row if uid is not None)
