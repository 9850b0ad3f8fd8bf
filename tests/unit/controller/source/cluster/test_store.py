"""The store of one list: tables of single rules, and a model of an API server whose streams are cut and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.source.cluster.store import Effect, ObjectStore, newer

Json = dict[str, Any]


def thing(name: str, version: int, uid: str = "", **more: Any) -> Json:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **more}


def page(items: Sequence[Json], version: int, more: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


def listed(*items: Json, version: int = 10) -> ObjectStore:
    store = ObjectStore()
    store.begin_list()
    assert store.add_page(page(items, version)) is None
    return store


def versions(store: ObjectStore) -> dict[str, str]:
    return {name: raw["metadata"]["resourceVersion"] for (_, name), raw in store.objects.items()}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("2", "1", True),
        ("1", "1", False),
        ("9", "10", False),
        ("10", "9", True),
        ("1", "", True),
        ("a", "b", True),
        ("a", "a", False),
    ],
)
def test_which_version_is_newer(left: str, right: str, expected: bool) -> None:
    assert newer(left, right) is expected


def test_list_of_several_pages_counts_when_its_last_page_is_there() -> None:
    store = ObjectStore()
    store.begin_list()
    assert store.add_page(page([thing("a", 1)], 10, "next")) == "next"
    assert (store.synced, store.objects) == (False, {})
    assert store.add_page(page([thing("b", 2)], 10)) is None
    assert (store.synced, store.version) == (True, "10")
    assert versions(store) == {"a": "1", "b": "2"}


def test_list_that_begins_again_forgets_the_pages_before() -> None:
    store = ObjectStore()
    store.begin_list()
    store.add_page(page([thing("a", 1)], 10, "next"))
    store.begin_list()
    store.add_page(page([thing("b", 2)], 11))
    assert versions(store) == {"b": "2"}


_A = thing("a", 5)
EVENTS = {
    "added": (event("ADDED", thing("b", 11)), Effect.CHANGED, {"a": "5", "b": "11"}),
    "modified": (event("MODIFIED", thing("a", 11, data={"x": "1"})), Effect.CHANGED, {"a": "11"}),
    "modified in what is not kept": (event("MODIFIED", thing("a", 11)), Effect.NOTHING, {"a": "11"}),
    "deleted": (event("DELETED", thing("a", 11)), Effect.CHANGED, {}),
    "deleted, which was never there": (event("DELETED", thing("b", 11)), Effect.NOTHING, {"a": "5"}),
    "a bookmark": (event("BOOKMARK", thing("", 11)), Effect.NOTHING, {"a": "5"}),
    "seen before": (event("MODIFIED", thing("a", 10)), Effect.NOTHING, {"a": "5"}),
    "a deletion seen before": (event("DELETED", thing("a", 9)), Effect.NOTHING, {"a": "5"}),
    "too old": (event("ERROR", {"code": 410}), Effect.RELIST, {"a": "5"}),
    "not readable": ({"type": "ADDED", "object": None}, Effect.RELIST, {"a": "5"}),
    "of an unknown type": (event("PATCHED", thing("a", 11)), Effect.RELIST, {"a": "5"}),
}


@pytest.mark.parametrize("row", EVENTS.values(), ids=EVENTS)
def test_event_has_the_effect_of_its_row(row: tuple[Json, Effect, dict[str, str]]) -> None:
    given_, effect, expected = row
    store = listed(_A)
    assert store.apply(given_) is effect
    assert versions(store) == expected
    assert bool(store.version) is (effect is not Effect.RELIST)


def test_answer_that_comes_before_its_event() -> None:
    store = listed(_A)
    assert store.put(thing("a", 12, status={"x": 1}))
    assert store.apply(event("MODIFIED", thing("a", 11))) is Effect.NOTHING, "the older event must not undo it"
    assert store.apply(event("MODIFIED", thing("a", 12, status={"x": 1}))) is Effect.NOTHING
    assert store.apply(event("MODIFIED", thing("a", 13, status={"x": 2}))) is Effect.CHANGED
    assert versions(store) == {"a": "13"}


def test_answer_that_comes_late_brings_nothing_back() -> None:
    store = listed(_A)
    store.apply(event("DELETED", thing("a", 12)))
    assert not store.put(thing("a", 11))
    store.apply(event("ADDED", thing("a", 13, "another")))
    assert not store.put(thing("a", 14))
    assert versions(store) == {"a": "13"}


def test_deleted_are_those_of_an_event_and_those_whose_name_is_taken() -> None:
    store = listed(thing("a", 1), thing("b", 2), thing("c", 3), thing("d", 4))
    store.apply(event("DELETED", thing("a", 11)))
    store.add_page(page([thing("d", 12, "another")], 12))
    assert store.deleted == {"uid-a", "uid-d"}, "one by an event, one because another has its name"
    assert versions(store) == {"d": "12"}, "the list does not have b and c, which says less"


def test_list_does_not_drop_what_is_newer_than_it() -> None:
    store = listed(_A)
    store.apply(event("ADDED", thing("b", 20)))
    store.put(thing("a", 21))
    store.add_page(page([thing("a", 15)], 16))
    assert versions(store) == {"a": "21", "b": "20"}


def test_kind_that_is_not_installed_any_more_deletes_nothing() -> None:
    store = listed(_A)
    store.absent()
    assert (store.synced, store.version, store.objects, store.deleted) == (True, "", {}, set())


# -- against a model of the server

_STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "again", "cut", "compact"]), st.sampled_from("abcd")), max_size=60
)


class Server:
    """Everything that happened to the objects of one list."""

    def __init__(self) -> None:
        self.version = 1
        self.objects: dict[str, Json] = {}
        self.log: list[Json] = []
        self.oldest = 0
        self._uids = 0

    def write(self, name: str) -> None:
        self.version += 1
        exists = name in self.objects
        self._uids += not exists
        uid = self.objects[name]["metadata"]["uid"] if exists else f"u{self._uids}"
        self.objects[name] = thing(name, self.version, uid)
        self.log.append(event("MODIFIED" if exists else "ADDED", self.objects[name]))

    def delete(self, name: str) -> None:
        if name in self.objects:
            self.version += 1
            gone = self.objects.pop(name)
            self.log.append(event("DELETED", thing(name, self.version, gone["metadata"]["uid"])))

    def since(self, version: str) -> list[Json] | None:
        """The events after a version; None = 410."""
        if int(version) < self.oldest:
            return None
        return [change for change in self.log if int(change["object"]["metadata"]["resourceVersion"]) > int(version)]


def catch_up(store: ObjectStore, server: Server, repeat: bool) -> None:
    for _ in range(3):
        if not store.version:
            store.begin_list()
            items = list(server.objects.values())
            half = len(items) // 2
            store.add_page(page(items[:half], server.version, "more"))
            store.add_page(page(items[half:], server.version))
        events = server.since(store.version)
        if events is None:
            assert store.apply(event("ERROR", {"code": 410})) is Effect.RELIST
            continue
        for change in events:
            store.apply(change)
            if repeat:
                store.apply(change)
        return
    raise AssertionError("a list is never too old")


@given(_STEPS, st.booleans())
def test_whatever_happens_to_the_streams_the_store_has_what_the_server_has(
    steps: list[tuple[str, str]], repeat: bool
) -> None:
    server, store = Server(), ObjectStore()
    deleted = set()
    for what, name in steps:
        if what == "write":
            server.write(name)
        elif what == "delete":
            if name in server.objects:
                deleted.add(server.objects[name]["metadata"]["uid"])
            server.delete(name)
        elif what == "again":
            catch_up(store, server, repeat)
        elif what == "cut":
            store.begin_list()
            store.add_page(page(list(server.objects.values())[:1], server.version, "never read"))
        else:
            server.oldest = server.version
    catch_up(store, server, repeat)
    assert store.objects == {("ns", name): raw for name, raw in server.objects.items()}
    assert store.deleted <= deleted, "nothing counts as deleted that the server has not deleted"
