"""Which published resources stay although the cluster does not show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.model import Record
from controller.source.cluster.keeping import View, foreign_problem, keep, keep_creations, releasable, vanished
from knative.contract.leader_state import Removal
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable


def channel(uid: str) -> Channel:
    return Channel(uid, 1, "ns", uid, f"t-{uid}", f"t-{uid}.dlq", 1)


def subscription(uid: str, of: str) -> Subscription:
    return Subscription(
        uid, 1, "ns", uid, of, of, f"t-{of}", f"t-{of}.dlq", 1, f"kafka.{uid}", Addressable("http://x/")
    )


PUBLISHED: dict[str, Record] = {"c": channel("c"), "s": subscription("s", "c")}


def ids(*names: str) -> frozenset[str]:
    return frozenset(names)


ROWS = {
    "both are served": (View(True, ids("c", "s"), ids("c", "s"), ids()), "", ""),
    "nothing is listed yet": (View(False, ids(), ids(), ids()), "c s", ""),
    "one list is missing, one object is being deleted": (View(False, ids("c"), ids("c"), ids("s")), "", ""),
    "being deleted": (View(True, ids(), ids(), ids("c", "s")), "", ""),
    "there, but not to be served": (View(True, ids("c"), ids("c", "s"), ids()), "s", ""),
    "an empty cluster": (View(True, ids(), ids(), ids()), "c s", "c s"),
    "a Subscription that nobody deleted": (View(True, ids("c"), ids("c"), ids()), "s", "s"),
    "an entry that left its channel, core": (View(True, ids("c"), ids("c"), ids(), core=True), "", ""),
    "an entry that left its channel, own": (View(True, ids("c"), ids("c"), ids(), entries_seen=ids("s")), "", ""),
    "a Subscription that core has not added yet": (
        View(True, ids("c"), ids("c"), ids(), core=True, former=ids("s")),
        "s",
        "",
    ),
    "a Subscription that core has added and removed": (
        View(True, ids("c"), ids("c"), ids(), entries_seen=ids("s"), core=True, former=ids("s")),
        "",
        "",
    ),
    "a Subscription that core has not added, of a channel that is being deleted": (
        View(True, ids(), ids(), ids("c"), core=True, former=ids("s")),
        "",
        "",
    ),
    "an entry whose channel is not there": (View(True, ids(), ids(), ids(), core=True), "c s", "c s"),
    "an entry whose channel is being deleted": (View(True, ids(), ids(), ids("c"), core=True), "", ""),
    "a Subscription whose channel is being deleted": (View(True, ids(), ids(), ids("c")), "", ""),
    "an entry whose channel is not valid now": (View(True, ids(), ids("c"), ids(), core=True), "c s", "s"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_stays(row: tuple[View, str, str]) -> None:
    view, retained, foreign = row
    found = keep(view, PUBLISHED)
    assert (found.retained, found.foreign) == (ids(*retained.split()), ids(*foreign.split()))


CREATED = {
    "c": Removal("c", "KafkaChannel", "ns/c", "t-c", topics=("t-c", "t-c.dlq")),
    "s": Removal("s", "Subscription", "ns/s", "t-c", group="kafka.s"),
}
CREATION_ROWS = {
    "nothing is listed yet": (View(False, ids(), ids(), ids()), "c s"),
    "not valid now": (View(True, ids(), ids("c", "s"), ids()), "c s"),
    "the list is missing": (View(True, ids(), ids(), ids()), "c"),
    "being deleted": (View(True, ids(), ids(), ids("c", "s")), ""),
    "the channel is being deleted": (View(True, ids(), ids("s"), ids("c")), "s"),
    "an entry that left its channel": (View(True, ids("c"), ids("c"), ids(), entries_seen=ids("s")), "c"),
}


@pytest.mark.parametrize("row", CREATION_ROWS.values(), ids=CREATION_ROWS)
def test_what_stays_of_that_which_was_never_published(row: tuple[View, str]) -> None:
    assert keep_creations(row[0], CREATED) == ids(*row[1].split())


ALL = frozenset({("KafkaChannel", ""), ("Subscription", "")})
EMPTY = View(True, ids(), ids(), ids(), lists=ALL)
VANISHED_ROWS = {
    "nothing is listed yet": (replace(EMPTY, synced=False), ""),
    "not valid now": (replace(EMPTY, present=ids("c", "s")), ""),
    "an empty cluster: of a group alone, nothing would be left behind": (EMPTY, "c"),
    "an empty namespace": (replace(EMPTY, lists=frozenset({("KafkaChannel", "ns")})), "c"),
    "other namespaces": (replace(EMPTY, lists=frozenset({("KafkaChannel", "n"), ("KafkaChannel", "nsx")})), ""),
    "its kind is not installed": (replace(EMPTY, lists=ALL - {("KafkaChannel", "")}), ""),
    "being deleted": (replace(EMPTY, deleted=ids("c", "s")), ""),
    "served": (replace(EMPTY, alive=ids("c")), ""),
}


@pytest.mark.parametrize("row", VANISHED_ROWS.values(), ids=VANISHED_ROWS)
def test_which_objects_have_vanished_before_they_were_published(row: tuple[View, str]) -> None:
    assert vanished(row[0], CREATED) == ids(*row[1].split())


def test_a_subscription_of_a_channel_that_is_gone_from_the_contract_does_not_stay() -> None:
    assert keep(View(True, ids(), ids(), ids()), {"s": PUBLISHED["s"]}).retained == ids()
    assert keep(View(False, ids(), ids(), ids()), {"s": PUBLISHED["s"]}).retained == ids("s")


def test_what_a_person_wants_removed_does_not_stay() -> None:
    found = keep(View(True, ids(), ids(), ids()), PUBLISHED, released=ids("c", "s"))
    assert found.retained == found.foreign == ids()


def test_a_channel_is_released_only_with_its_subscriptions() -> None:
    assert releasable(["c"], PUBLISHED) == ids()
    assert releasable(["s"], PUBLISHED) == ids("s")
    assert releasable(["c", "s"], PUBLISHED) == ids("c", "s")


def test_the_problem_names_an_object_and_the_command() -> None:
    (problem,) = foreign_problem(["c", "s"], PUBLISHED, "https://api")
    assert "KafkaChannel ns/c and 1 more" in problem.what
    assert "penstock remove KafkaChannel/ns/c --yes" in problem.hint
    assert foreign_problem([], PUBLISHED, "https://api") == ()
