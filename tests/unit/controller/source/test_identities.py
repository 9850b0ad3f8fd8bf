"""Uids and generations of objects from files: kept, raised, recovered, and never given twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from controller.plan.actions import AnyObject
from controller.source.directory import Snapshot, Written
from controller.source.identities import Identities
from knative.contract import records
from knative.contract.leader_state import Identity, LeaderState, Removal
from knative.resources.destination import Destination
from knative.resources.values import KafkaChannel, Subscriber


def written(name: str, spec_hash: str = "h1", *subscribers: Subscriber) -> Written:
    return Written(KafkaChannel("default", name, subscribers=subscribers), spec_hash, f"{name}.yaml", 1)


def snapshot(*objects: Written, complete: bool = True) -> Snapshot:
    return Snapshot(objects, (), complete)


def record(name: str, uid: str, generation: int, spec_hash: str) -> records.Channel:
    return records.Channel(uid, generation, "default", name, "t", "t.dlq", 1, spec_hash=spec_hash)


def new_identities() -> Identities:
    numbers = count(1)
    return Identities(lambda: f"new-{next(numbers)}")


def uids_and_generations(objects: tuple[AnyObject, ...]) -> list[tuple[str, int]]:
    return [(object_.uid, object_.generation) for object_ in objects]


def test_new_object_gets_a_uid_and_each_change_another_generation() -> None:
    identities = new_identities()
    assert uids_and_generations(identities.assign(snapshot(written("a")), (), ())) == [("new-1", 1)]
    assert uids_and_generations(identities.assign(snapshot(written("a")), (), ())) == [("new-1", 1)]
    assert uids_and_generations(identities.assign(snapshot(written("a", "h2")), (), ())) == [("new-1", 2)]
    assert uids_and_generations(identities.assign(snapshot(written("a", "h1")), (), ())) == [("new-1", 3)]


def test_uids_are_random_by_default() -> None:
    first, second = Identities().assign(snapshot(written("a"), written("b")), (), ())
    assert first.uid != second.uid
    assert len(first.uid) == 36


def test_uid_and_generation_are_recovered_from_the_contract() -> None:
    published = [record("a", "u", 4, "h1")]
    assert uids_and_generations(new_identities().assign(snapshot(written("a", "h1")), published, ())) == [("u", 4)]
    assert uids_and_generations(new_identities().assign(snapshot(written("a", "h2")), published, ())) == [("u", 5)]


def test_resource_that_comes_back_has_a_new_uid() -> None:
    identities = new_identities()
    identities.assign(snapshot(written("a")), (), ())
    identities.assign(snapshot(), (), ())
    assert uids_and_generations(identities.assign(snapshot(written("a")), (), ())) == [("new-2", 1)]
    published = [record("b", "u", 4, "h1")]
    assert uids_and_generations(identities.assign(snapshot(written("b")), published, {"u"})) == [("new-3", 1)]


def test_what_the_contract_does_not_have_yet_is_inherited_from_the_last_leader() -> None:
    """Two processes with files of their own agree on uid and generation, even of resources that were never
    published."""
    now = snapshot(written("a", "h3"), written("b", "h1"))
    published = [record("a", "ua", 4, "h1")]
    identities, successor = new_identities(), Identities(lambda: "another")
    identities.assign(snapshot(written("a", "h2"), written("b", "h1")), published, ())
    first = uids_and_generations(identities.assign(now, published, ()))
    assert first == [("ua", 6), ("new-1", 1)]
    unpublished = identities.unpublished(published)
    assert unpublished == {
        ("KafkaChannel", "default", "a"): Identity("ua", 6, "h3"),
        ("KafkaChannel", "default", "b"): Identity("new-1", 1, "h1"),
    }
    successor.begin(LeaderState(identities=unpublished))
    assert uids_and_generations(successor.assign(now, published, ())) == first
    assert successor.unpublished([record("a", "ua", 6, "h3"), record("b", "new-1", 1, "h1")]) == {}, "nothing to record"


def test_what_is_inherited_waits_for_its_file_until_the_directory_is_known() -> None:
    inherited = {("KafkaChannel", "default", "a"): Identity("ua", 2, "h2")}
    for complete, uid in ((False, "ua"), (True, "new-1")):
        identities = new_identities()
        identities.begin(LeaderState(identities=inherited))
        identities.assign(snapshot(complete=complete), (), ())
        assert identities.unpublished(()) == ({} if complete else inherited)
        assert [resource.uid for resource in identities.assign(snapshot(written("a", "h2")), (), ())] == [uid]


def test_what_is_being_removed_is_not_inherited() -> None:
    identities = new_identities()
    removal = Removal("ua", "KafkaChannel", "default/a", "t")
    inherited = {("KafkaChannel", "default", "a"): Identity("ua", 2, "h2")}
    identities.begin(LeaderState({"ua": removal}, inherited))
    assert uids_and_generations(identities.assign(snapshot(written("a", "h2")), (), {"ua"})) == [("new-1", 1)]


def test_another_leaders_record_counts_more_than_memory() -> None:
    identities = new_identities()
    identities.assign(snapshot(written("a")), (), ())
    assert uids_and_generations(identities.assign(snapshot(written("a")), [record("a", "u", 2, "h1")], ())) == [
        ("u", 2)
    ]
    identities.begin()
    assert uids_and_generations(identities.assign(snapshot(written("a")), (), ())) == [("new-2", 1)]


def test_entry_of_a_channel_does_not_share_its_identity() -> None:
    entry = Subscriber("e", "a", 1, Destination(uri="http://h/"))
    published = [record("a", "e", 1, "h1")]
    assert uids_and_generations(new_identities().assign(snapshot(written("a", "h1", entry)), published, ())) == [
        ("new-1", 1)
    ]


def test_resource_that_was_in_no_file_for_a_while_continues_as_what_it_was() -> None:
    unlisted = [replace(record("a", "ua", 1, "h1"), unlisted=True)]
    for identities in (new_identities(), new_identities()):  # also after a restart
        assert uids_and_generations(identities.assign(snapshot(), unlisted, ())) == []
        assert uids_and_generations(identities.assign(snapshot(written("a", "h1")), unlisted, ())) == [("ua", 1)]
        assert uids_and_generations(identities.assign(snapshot(written("a", "h2")), unlisted, ())) == [("ua", 2)]
