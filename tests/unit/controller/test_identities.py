"""Uids and generations of objects from files: kept, raised, recovered, and never given twice."""

from __future__ import annotations

from itertools import count

from controller.actions import AnyObject
from controller.directory import Snapshot, Written
from controller.identities import Identities
from knative import contract
from knative.resources import KafkaChannel, Subscriber
from knative.targets import Target


def written(name: str, spec_hash: str = "h1", *subscribers: Subscriber) -> Written:
    return Written(KafkaChannel("default", name, subscribers=subscribers), spec_hash, f"{name}.yaml", 1)


def snapshot(*objects: Written, complete: bool = True) -> Snapshot:
    return Snapshot(objects, (), complete)


def record(name: str, uid: str, generation: int, spec_hash: str) -> contract.Channel:
    return contract.Channel(uid, generation, "default", name, "t", "t.dlq", 1, spec_hash=spec_hash)


def made() -> Identities:
    numbers = count(1)
    return Identities(lambda: f"new-{next(numbers)}")


def who(objects: tuple[AnyObject, ...]) -> list[tuple[str, int]]:
    return [(one.uid, one.generation) for one in objects]


def test_a_new_object_gets_a_uid_and_a_change_a_generation() -> None:
    identities = made()
    assert who(identities.assign(snapshot(written("a")), (), ())) == [("new-1", 1)]
    assert who(identities.assign(snapshot(written("a")), (), ())) == [("new-1", 1)]
    assert who(identities.assign(snapshot(written("a", "h2")), (), ())) == [("new-1", 2)]
    assert who(identities.assign(snapshot(written("a", "h1")), (), ())) == [("new-1", 3)]


def test_uids_are_random_by_default() -> None:
    one, two = Identities().assign(snapshot(written("a"), written("b")), (), ())
    assert one.uid != two.uid
    assert len(one.uid) == 36


def test_both_are_recovered_from_the_contract() -> None:
    published = [record("a", "u", 4, "h1")]
    assert who(made().assign(snapshot(written("a", "h1")), published, ())) == [("u", 4)]
    assert who(made().assign(snapshot(written("a", "h2")), published, ())) == [("u", 5)]


def test_who_comes_back_is_somebody_new() -> None:
    identities = made()
    identities.assign(snapshot(written("a")), (), ())
    identities.assign(snapshot(), (), ())
    assert who(identities.assign(snapshot(written("a")), (), ())) == [("new-2", 1)]
    published = [record("b", "u", 4, "h1")]
    assert who(identities.assign(snapshot(written("b")), published, {"u"})) == [("new-3", 1)]


def test_another_leaders_record_counts_more_than_memory() -> None:
    identities = made()
    identities.assign(snapshot(written("a")), (), ())
    assert who(identities.assign(snapshot(written("a")), [record("a", "u", 2, "h1")], ())) == [("u", 2)]
    identities.forget()
    assert who(identities.assign(snapshot(written("a")), (), ())) == [("new-2", 1)]


def test_an_entry_of_a_channel_is_nobody_elses_identity() -> None:
    entry = Subscriber("e", "a", 1, Target(uri="http://h/"))
    published = [record("a", "e", 1, "h1")]
    assert who(made().assign(snapshot(written("a", "h1", entry)), published, ())) == [("new-1", 1)]


def test_what_nobody_could_read_is_held_until_everything_was_seen() -> None:
    identities = made()
    published = [record("a", "ua", 1, "h1"), record("b", "ub", 1, "h1")]
    half = snapshot(written("a"), complete=False)
    assert identities.held(half, published, identities.assign(half, published, ())) == {"ub"}
    whole = snapshot(written("a"), written("b"))
    identities.assign(whole, published, ())
    gone = snapshot(written("a"), complete=False)
    assert identities.held(gone, published, identities.assign(gone, published, ())) == frozenset(), "it was seen to go"
