"""The checker on made-up ledgers: a clean one passes, and each kind of planted fault is named.

A proof is worth what its judge is worth, so every promise of the ledger is broken here once, alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledger.checker import Verdict, check
from tests.support.ledger.facts import (
    BadLedger,
    Committed,
    Dead,
    Fact,
    Fault,
    Received,
    Sent,
    Stored,
    Writer,
    attributes_hash,
    body_hash,
    decode,
    encode,
    read,
)
from tests.support.profiles import examples
from tests.unit.support.ledger.made_up import EVENTS, PARTITIONS, RULES, TOPIC, clean_ledger, deliver_again, find


def _judge(facts: list[Fact]) -> Verdict:
    return check(facts, RULES)


@pytest.mark.parametrize("seed", range(5))
def test_clean_ledger_passes(seed: int) -> None:
    verdict = _judge(clean_ledger(seed))
    assert verdict.violations == (), str(verdict)
    report = verdict.report
    assert (report.events, report.rejected, report.lost, report.duplicates, report.dead_letters) == (EVENTS, 0, 0, 0, 1)
    assert (report.subscriptions, report.partitions, report.deliveries) == (3, PARTITIONS, 3 * EVENTS - 1)
    assert report.commits == 3 * EVENTS


def test_refused_event_at_an_offset_that_another_has_is_read_by_nobody() -> None:
    """What a broker leaves whose disk was full when it wrote its index."""
    before, after, refused = _two_at_one_offset(status=503)
    verdict = _judge([*before, refused, *after])
    assert (verdict.violations, verdict.report.hidden) == ((), 1), str(verdict)


def test_accepted_event_at_an_offset_that_another_has_is_lost() -> None:
    before, after, accepted = _two_at_one_offset(status=202)
    verdict = _judge([*before, accepted, *after])
    assert {violation.kind for violation in verdict.violations} == {"lost", "early-commit"}
    assert verdict.report.hidden == 0


def test_first_of_two_at_one_offset_must_be_delivered() -> None:
    before, after, refused = _two_at_one_offset(status=503)
    verdict = _judge([*before[:-1], refused, before[-1], *after])
    assert {violation.kind for violation in verdict.violations} == {"early-commit"}


def _two_at_one_offset(status: int) -> tuple[list[Fact], list[Fact], Fact]:
    """A clean ledger up to a record of partition 1 and from there on, and another record at that one's offset."""
    facts = clean_ledger(0)
    sent, stored = find(facts, Sent, id="e4")[0], find(facts, Stored, id="e4")[0]
    assert isinstance(sent, Sent)
    assert isinstance(stored, Stored)
    facts.insert(0, replace(sent, id="late", key="alone", seq=0, status=status))
    at = facts.index(stored) + 1
    return facts[:at], facts[at:], replace(stored, id="late", key="alone")


def _lose_a_delivery(facts: list[Fact]) -> list[Fact]:
    gone = find(facts, Received, subscription="ns/keyed", id="e7")
    return [fact for fact in facts if fact not in gone]


def _lose_a_dead_letter(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not isinstance(fact, Dead)]


def _accept_without_storing(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not (isinstance(fact, Stored) and fact.id == "e58")]


def _store_twice(facts: list[Fact]) -> list[Fact]:
    record = find(facts, Stored, id="e3")[0]
    return [*facts, replace(record, offset=10_000)]


def _send_twice(facts: list[Fact]) -> list[Fact]:
    return [*facts, find(facts, Sent, id="e3")[0]]


def _store_a_key_out_of_order(facts: list[Fact]) -> list[Fact]:
    stored, two = find(facts, Stored, key="k2")[1:3]
    swapped = {stored: replace(stored, offset=two.offset), two: replace(two, offset=stored.offset)}
    return [swapped.get(fact, fact) if isinstance(fact, Stored) else fact for fact in facts]


def _swap_times(facts: list[Fact], subscription: str, first_id: str, second_id: str) -> list[Fact]:
    first = find(facts, Received, subscription=subscription, id=first_id)
    second = find(facts, Received, subscription=subscription, id=second_id)
    shift_s = second[0].time_s - first[0].time_s

    def move(fact: Fact) -> Fact:
        if fact in first and isinstance(fact, Received):
            return replace(fact, time_s=fact.time_s + shift_s, answered_s=fact.answered_s + shift_s)
        if fact in second and isinstance(fact, Received):
            return replace(fact, time_s=fact.time_s - shift_s, answered_s=fact.answered_s - shift_s)
        return fact

    return [move(fact) for fact in facts]


def _overtake_in_a_partition(facts: list[Fact]) -> list[Fact]:
    return _swap_times(facts, "ns/ordered", "e9", "e12")  # other keys, same partition


def _overtake_in_a_key(facts: list[Fact]) -> list[Fact]:
    return _swap_times(facts, "ns/keyed", "e9", "e15")


def _two_at_once(facts: list[Fact]) -> list[Fact]:
    early = find(facts, Received, subscription="ns/ordered", id="e12", status=200)[0]
    first_s = find(facts, Received, subscription="ns/ordered", id="e15")[0].time_s
    return [replace(fact, answered_s=first_s + 0.001) if fact == early else fact for fact in facts]


def _two_at_once_before_a_dead_letter(facts: list[Fact]) -> list[Fact]:
    last = find(facts, Received, subscription="ns/keyed", id="e30")[-1]
    after = find(facts, Received, subscription="ns/keyed", id="e36")[0]  # the next one of its key
    return [replace(fact, time_s=last.time_s - 0.001) if fact == after else fact for fact in facts]


def _commit_early(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/ordered", id="e20", status=200)[0]
    offset = find(facts, Stored, id="e20")[0].offset
    return [*facts, Committed("kafka.u1", TOPIC, 2, offset + 1, visit.answered_s - 0.005)]


def _commit_back(facts: list[Fact]) -> list[Fact]:
    last = find(facts, Committed, group="kafka.u2", partition=1)[-1]
    return [
        *facts,
        replace(last, offset=last.offset - 3, time_s=last.time_s + 1),
        replace(last, time_s=last.time_s + 2),
    ]


def _stop_committing(facts: list[Fact]) -> list[Fact]:
    late = find(facts, Committed, group="kafka.u3", partition=0)[-4:]
    return [fact for fact in facts if fact not in late]


def _never_commit(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not (isinstance(fact, Committed) and fact.group == "kafka.u3")]


def _change_a_body(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/keyed", id="e5")[0]
    return [replace(fact, body_hash="other") if fact == visit else fact for fact in facts]


def _change_an_attribute(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/unordered", id="e5")[0]
    return [replace(fact, attributes_hash="other") if fact == visit else fact for fact in facts]


def _change_a_dead_letter(facts: list[Fact]) -> list[Fact]:
    return [replace(fact, body_hash="other") if isinstance(fact, Dead) else fact for fact in facts]


def _deliver_what_nobody_sent(facts: list[Fact]) -> list[Fact]:
    return [*facts, replace(find(facts, Received, subscription="ns/unordered")[0], id="stranger")]


def _deliver_again_after_sigterm(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    return [*deliver_again(facts), Fault("term", visit.answered_s + 0.1, visit.answered_s + 0.5)]


def _deliver_again_long_after_it_settled(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    return [*deliver_again(facts), Fault("kill", visit.answered_s + 1.1, visit.answered_s + 1.2)]


def _deliver_again_before_the_kill(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    return [*deliver_again(facts), Fault("kill", visit.time_s + 50.1, visit.time_s + 50.2)]


def _try_too_often(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/keyed", id="e30")[-1]
    return [*facts, replace(visit, attempt=5, time_s=visit.time_s + 0.0001)]


PLANTED: list[tuple[Callable[[list[Fact]], list[Fact]], str]] = [
    (_lose_a_delivery, "lost"),
    (_lose_a_dead_letter, "lost"),
    (_accept_without_storing, "not-stored"),
    (_store_twice, "twice"),
    (_send_twice, "twice"),
    (_store_a_key_out_of_order, "stored-order"),
    (_overtake_in_a_partition, "overtaken"),
    (_overtake_in_a_key, "overtaken"),
    (_two_at_once, "overlap"),
    (_two_at_once_before_a_dead_letter, "overlap"),
    (_commit_early, "early-commit"),
    (_commit_back, "commit-back"),
    (_stop_committing, "lag"),
    (_never_commit, "lag"),
    (_change_a_body, "corrupt"),
    (_change_an_attribute, "corrupt"),
    (_change_a_dead_letter, "corrupt"),
    (_deliver_what_nobody_sent, "corrupt"),
    (deliver_again, "duplicate"),
    (_deliver_again_after_sigterm, "duplicate"),
    (_deliver_again_long_after_it_settled, "duplicate"),
    (_deliver_again_before_the_kill, "duplicate"),
    (_try_too_often, "attempts"),
]


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda value: getattr(value, "__name__", value))
def test_each_planted_fault_is_named(plant: Callable[[list[Fact]], list[Fact]], kind: str) -> None:
    verdict = _judge(plant(clean_ledger()))
    assert verdict.of(kind), str(verdict)


@given(st.sampled_from(PLANTED), st.integers(0, 10_000))
@examples(60)
def test_planted_faults_are_named_whatever_the_run(
    planted: tuple[Callable[[list[Fact]], list[Fact]], str], seed: int
) -> None:
    plant, kind = planted
    facts = plant(clean_ledger(seed))
    random.Random(seed).shuffle(facts)
    assert _judge(facts).of(kind)


def test_event_that_is_stored_twice_is_owed_twice_and_each_copy_has_its_place() -> None:
    """The second copy lies behind everything of its partition: its delivery comes last, and neither is a repeat."""
    facts = clean_ledger()
    record = find(facts, Stored, id="e3")[0]
    end_s = max(fact.answered_s for fact in facts if isinstance(fact, Received))
    again = [
        replace(visit, attempt=9, time_s=end_s + 1, answered_s=end_s + 1.01)
        for visit in find(facts, Received, id="e3", status=200)
    ]
    copied = [*facts, replace(record, offset=10_000), *again]
    copied += [Committed(rule.group, TOPIC, record.partition, 10_001, end_s + 2) for rule in RULES]
    assert {violation.kind for violation in _judge(copied).violations} == {"twice", "stored-order"}
    early = [replace(fact, time_s=1000.0, answered_s=1000.01) if fact in again else fact for fact in copied]
    assert _judge(early).of("overtaken", "overlap")
    third = [replace(fact, attempt=10, time_s=end_s + 3, answered_s=end_s + 3.01) for fact in again]
    assert _judge([*copied, *third]).of("duplicate")


def test_rejected_event_may_arrive_or_not() -> None:
    """I4: what was not answered 202 is owed to nobody."""
    facts = clean_ledger()
    sent = find(facts, Sent, id="e59")[0]
    refused = [replace(fact, status=503) if fact == sent else fact for fact in facts]
    assert _judge(refused).violations == ()
    never = [f for f in refused if f == sent or getattr(f, "id", "") != "e59"]
    kept = [f for f in never if not (isinstance(f, Committed) and f.partition == 2 and f.offset == EVENTS // 3)]
    assert _judge(kept).violations == ()


def test_events_sent_before_a_subscription_was_ready_are_not_owed() -> None:
    facts = _lose_a_delivery(clean_ledger())
    since_s = find(facts, Sent, id="e8")[0].time_s
    rules = [replace(rule, since_s=since_s) for rule in RULES]
    assert check(facts, rules).violations == ()


def test_facts_survive_a_file(tmp_path: Path) -> None:
    facts = [*clean_ledger(), Fault("kill", 1.0, 2.0, 3)]
    with Writer(tmp_path / "ledger") as writer:
        writer.write_all(facts)
    assert list(read(tmp_path / "ledger")) == facts


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"fact":"rumour"}', b'{"fact":"fault","kind":"kill"}'])
def test_line_that_is_not_a_fact_is_rejected_with_its_place(line: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadLedger):
        decode(line)
    (tmp_path / "ledger").write_bytes(encode(Fault("kill", 1.0, 2.0)) + b"\n" + line + b"\n")
    with pytest.raises(BadLedger, match="ledger:2: not a fact"):
        list(read(tmp_path / "ledger"))


def test_hashes_see_what_must_not_change() -> None:
    pairs = [(b"ce-id", b"1"), (b"content-type", b"text/plain"), (b"ce-a", b"x")]
    seen = [
        (b"Host", b"h"),
        (b"CE-A", b"x"),
        (b"Ce-Id", b"1"),
        (b"traceparent", b"t"),
        (b"Content-Type", b"text/plain"),
    ]
    assert attributes_hash(pairs) == attributes_hash(seen)
    assert attributes_hash(pairs) != attributes_hash([*pairs, (b"ce-b", b"")])
    assert attributes_hash([(b"ce-a", b"bce-c")]) != attributes_hash([(b"ce-ab", b"ce-c")])
    assert body_hash(None) == body_hash(b"") != body_hash(b"\0")
