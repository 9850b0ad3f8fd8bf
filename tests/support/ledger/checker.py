"""The checker: reads the facts of a run and names everything that broke a promise.

    I1, I4  lost, not-stored     a 202 that a subscription never got, or that Kafka does not hold
    ingress stored-order, twice  events of a key that were sent one after the other lie in another order, or twice
    I2      overtaken, overlap   first deliveries of a lane that do not rise by offset, or two unsettled at once
    I3      early-commit, commit-back   a committed offset above an unsettled event, or one that went down
    I5      corrupt              bytes or attributes that differ from what was sent
    filters unwanted             an event that came to a subscriber, or to its dead letters, and does not pass
    I6      duplicate            an event delivered again without a fault that explains it, or that Kafka had as settled
    I7      lag                  a group whose last commit is below the end of a partition
    I8      attempts             more than retry + 1, plus one per kill or revoke

Judges only what is in the ledger and never repairs it; a run without the facts that an invariant needs (no reader of
Kafka, say) is not judged for it, so look at `Report.events` and `Report.commits` as well as at the violations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.support.ledger.facts import Committed, Fact, Fault, Received, Sent, Stored
from tests.support.ledger.history import INTERRUPTING, REPEATING, History, Rule, delivered, lane
from tests.support.ledger.report import Report, summarize

#: Commit times come from the broker's clock in whole milliseconds, rounded down.
_COMMIT_TICK_S = 0.002
#: An event that settled up to this long before its worker was killed may come again.
_SETTLED_BEFORE_FAULT_S = 1.0
#: A Kafka that fails repeats nothing that settled earlier than this long before the worker paused for it.
_SETTLED_BEFORE_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: `kind` as in the module's table, and the evidence."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker found."""

    violations: tuple[Violation, ...]
    report: Report

    def of(self, *kinds: str) -> list[Violation]:
        """The violations of these kinds."""
        return [violation for violation in self.violations if violation.kind in kinds]

    def __str__(self) -> str:
        lines = [f"{self.report}", f"{len(self.violations)} violations"]
        lines += [f"  {violation.kind}: {violation.message}" for violation in self.violations[:30]]
        return "\n".join(lines)


def check(facts: Iterable[Fact], rules: Sequence[Rule], max_rss_bytes: int = 0) -> Verdict:
    """Judge a run whose sender posted a key's next event only after the last was answered, and that ended when
    everything was delivered, so that each group's commit must have reached the end."""
    history = History.of(facts)
    violations = [*_stored(history)]
    for rule in rules:
        for judge in (_lost, _unwanted, _order, _commits, _attempts, _intact):
            violations += judge(history, rule)
    duplicates = [(rule, *pair) for rule in rules for pair in _duplicates(history, rule)]
    for rule, earlier, again in duplicates:
        pauses = history.pauses[again.subscription]
        known_s = history.known_s(rule, again.id)
        is_settled = known_s is not None and known_s + _COMMIT_TICK_S < again.time_s
        if not any(
            _explains(fault, earlier, again, pauses) and (not is_settled or _unaware(fault, again))
            for fault in history.faults
        ):
            message = f"{again.subscription} got {again.id} again: {earlier} then {again}"
            violations.append(Violation("duplicate", message))
    counts = Counter(violation.kind for violation in violations)
    report = summarize(history, rules, len(duplicates), counts, max_rss_bytes)
    return Verdict(tuple(violations), report)


def _stored(history: History) -> Iterator[Violation]:
    for event in history.sent_twice:
        yield Violation("twice", f"{event} was sent under one id twice: the generator is wrong")
    if not history.stored:
        return
    for record in history.stored_twice:
        yield Violation("twice", f"{record.id} is stored twice, again at {record.partition}/{record.offset}")
    for sent in history.sent.values():
        if sent.status == 202 and sent.id not in history.stored:
            yield Violation("not-stored", f"{sent.id} was answered 202 and is in no partition")
    for record in history.stored.values():
        origin = history.sent.get(record.id)
        if origin is not None and origin.body_hash != record.body_hash:
            yield Violation("corrupt", f"{record.id} is stored with another body")
    yield from _stored_order(history)


def _stored_order(history: History) -> Iterator[Violation]:
    for records in history.partitions.values():
        last: dict[str, Sent] = {}
        for record in records:
            sent = history.sent.get(record.id)
            if sent is None or sent.key is None or sent.status != 202:
                continue
            before = last.get(sent.key)
            if before is not None and before.seq > sent.seq:
                yield Violation("stored-order", f"key {sent.key}: {sent.id} lies after {before.id}, sent later")
            last[sent.key] = sent


def _lost(history: History, rule: Rule) -> Iterator[Violation]:
    for sent in history.sent.values():
        if sent.status != 202 or not rule.owed(sent):
            continue
        if history.settled_s(rule.subscription, sent.id) is None:
            visits = history.received[rule.subscription].get(sent.id, [])
            place = history.stored.get(sent.id)
            yield Violation("lost", f"{rule.subscription} never settled {sent.id} ({len(visits)} attempts; {place})")


def _unwanted(history: History, rule: Rule) -> Iterator[Violation]:
    for name, events in (("got", history.received), ("dead-lettered", history.dead)):
        for event in events[rule.subscription]:
            sent = history.sent.get(event)
            if sent is not None and not rule.wants(sent):
                yield Violation("unwanted", f"{rule.subscription} {name} {event} of type {sent.type!r}")


def _order(history: History, rule: Rule) -> Iterator[Violation]:
    for (topic, _), records in history.partitions.items():
        if topic != rule.topic:
            continue
        before: dict[tuple[object, ...], tuple[Stored, Received, float | None]] = {}
        for record in records:
            visits = history.visits(rule.subscription, record)
            if not visits:
                continue
            key, first = lane(record, rule.order), visits[0]
            if history.is_copy(record):
                settled_s = next((visit.answered_s for visit in visits if delivered(visit)), None)
            else:
                settled_s = history.settled_s(rule.subscription, record.id)
            if key in before:
                yield from _follows(rule, before[key], record, first)
            before[key] = (record, first, settled_s)


def _follows(
    rule: Rule, before: tuple[Stored, Received, float | None], record: Stored, first: Received
) -> Iterator[Violation]:
    earlier, earlier_first, settled_s = before
    where = f"{rule.subscription} partition {record.partition}"
    if first.time_s < earlier_first.time_s:
        yield Violation("overtaken", f"{where}: offset {record.offset} came before offset {earlier.offset}")
    elif settled_s is not None and first.time_s < settled_s:
        yield Violation("overlap", f"{where}: offset {record.offset} came before {earlier.offset} was settled")


def _commits(history: History, rule: Rule) -> Iterator[Violation]:
    if not any(history.committed.values()):
        return
    by_partition: dict[int, list[Committed]] = defaultdict(list)
    for commit in history.committed.get(rule.group, ()):
        if commit.topic == rule.topic:
            by_partition[commit.partition].append(commit)
    for (topic, partition), records in history.partitions.items():
        if topic != rule.topic:
            continue
        commits = by_partition[partition]
        yield from _partition_commits(history, rule, commits, records)
        stands = commits[-1].offset if commits else 0
        if stands <= records[-1].offset:
            yield Violation("lag", f"{rule.group} stands at {partition}/{stands}, the last is {records[-1].offset}")


def _partition_commits(
    history: History, rule: Rule, commits: list[Committed], records: list[Stored]
) -> Iterator[Violation]:
    position, last = 0, 0
    for commit in commits:
        if commit.offset < last:
            yield Violation("commit-back", f"{rule.group} partition {commit.partition}: {last}, then {commit}")
        while position < len(records) and records[position].offset < commit.offset:
            record = records[position]
            position += 1
            sent = history.sent.get(record.id)
            if sent is None or not rule.owed(sent):
                continue
            settled_s = history.settled_s(rule.subscription, record.id)
            if settled_s is None or settled_s > commit.time_s + _COMMIT_TICK_S:
                yield Violation("early-commit", f"{commit} while {record} was unsettled (settled: {settled_s})")
        last = commit.offset


def _duplicates(history: History, rule: Rule) -> Iterator[tuple[Received, Received]]:
    """Pairs (delivered, came again): every attempt after as many deliveries as there are records of the event."""
    for event, visits in history.received[rule.subscription].items():
        before: Received | None = None
        owed = 1 + history.extra_copies[event]
        for visit in visits:
            if before is not None and not owed:
                yield before, visit
            if delivered(visit):
                before, owed = visit, max(0, owed - 1)


def _explains(fault: Fault, earlier: Received, again: Received, pauses: Sequence[float]) -> bool:
    """In flight at the fault, or settled shortly before; and it came again after the fault began."""
    if again.time_s < fault.from_s or earlier.time_s > fault.to_s:
        return False
    if fault.kind == "kafka":
        return any(_open_at(pause_s, earlier) for pause_s in pauses if fault.from_s <= pause_s)
    return fault.kind in REPEATING and earlier.answered_s >= fault.from_s - _SETTLED_BEFORE_FAULT_S


def _unaware(fault: Fault, again: Received) -> bool:
    """Who has partitions knows what Kafka has as settled: it repeats what is not committed, and nothing else. Only a
    worker that was frozen goes on with what it knew, until it hears that it has lost them."""
    return fault.resumed_s is not None and fault.resumed_s <= again.time_s <= fault.to_s


def _open_at(pause_s: float, earlier: Received) -> bool:
    """In flight when the worker paused, or settled shortly before. Afterwards it only retries."""
    return earlier.answered_s >= pause_s - _SETTLED_BEFORE_PAUSE_S and (
        earlier.time_s <= pause_s or earlier.attempt > 1
    )


def _attempts(history: History, rule: Rule) -> Iterator[Violation]:
    for event, visits in history.received[rule.subscription].items():
        excess = len(visits) - (rule.retry + 1)
        if excess <= 0:
            continue
        since_s, until_s = visits[0].time_s, visits[-1].time_s
        faults = sum(
            fault.kind in INTERRUPTING and fault.from_s <= until_s and fault.to_s >= since_s for fault in history.faults
        )
        if excess > faults:
            yield Violation(
                "attempts", f"{rule.subscription} got {event} {len(visits)} times, retry {rule.retry}, faults {faults}"
            )


def _intact(history: History, rule: Rule) -> Iterator[Violation]:
    for event, visits in history.received[rule.subscription].items():
        sent = history.sent.get(event)
        for visit in visits:
            if sent is None:
                yield Violation("corrupt", f"{rule.subscription} got {event}, which was never sent")
            elif (visit.body_hash, visit.attributes_hash) != (sent.body_hash, sent.attributes_hash):
                yield Violation("corrupt", f"{rule.subscription} got {event} changed: {visit} instead of {sent}")
    for event, letters in history.dead[rule.subscription].items():
        sent = history.sent.get(event)
        for letter in letters:
            if sent is None or letter.body_hash != sent.body_hash:
                yield Violation("corrupt", f"the dead letter of {event} for {rule.subscription} is not what was sent")
