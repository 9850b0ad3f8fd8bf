"""Which published resources stay although the cluster does not show them."""

from __future__ import annotations

import pytest

from controller.model import Record
from controller.plan.deletion import removable
from controller.source.cluster.keeping import foreign_problem, keep, keep_creations, vanished
from controller.source.cluster.objects import FINALIZER
from controller.source.cluster.table import Row, State, Table
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


ALL = frozenset({("KafkaChannel", ""), ("Subscription", "")})
SERVED, INVALID, DELETING, GONE, FORMER, MISSING = (
    State.SERVED,
    State.INVALID,
    State.DELETING,
    State.GONE,
    State.FORMER,
    State.MISSING,
)


def table(
    c: State = MISSING, s: State = MISSING, *, entry: bool = False, synced: bool = True, core: bool = False
) -> Table:
    """A channel `c` and its Subscription `s`. `entry`: it was an entry of the channel once."""
    rows = {"c": Row(c), "s": Row(s, was_entry=entry)}
    made = Table(core, synced, ALL)
    made.rows.update(rows)
    return made


def listing(*, core: bool, synced: bool = True) -> Table:
    """A channel that is served, whose entry is of a Subscription that nobody has seen."""
    channel = {
        "apiVersion": "messaging.knative.dev/v1beta1",
        "kind": "KafkaChannel",
        "metadata": {"namespace": "ns", "name": "c", "uid": "c", "finalizers": [FINALIZER]},
        "spec": {"subscribers": [{"uid": "s", "generation": 1, "subscriberUri": "http://x/"}]},
    }
    made = Table(core, synced, ALL)
    made.read([channel], ())
    return made


ROWS = {
    "both are served": (table(SERVED, SERVED), "", ""),
    "an entry of a channel, core": (listing(core=True), "", ""),
    "an entry of a channel, own": (listing(core=False), "", ""),
    "an entry of a channel, with a list that is missing": (listing(core=True, synced=False), "", ""),
    "nothing is listed yet": (table(synced=False), "c s", ""),
    "one list is missing, one object is being deleted": (table(SERVED, DELETING, synced=False), "", ""),
    "being deleted": (table(DELETING, State.LEAVING), "", ""),
    "deleted": (table(GONE, GONE), "", ""),
    "there, but not valid": (table(SERVED, INVALID), "s", ""),
    "there, but without our finalizer": (table(State.LISTED, State.LISTED), "c s", ""),
    "an empty cluster": (table(), "c s", "c s"),
    "a Subscription that nobody deleted": (table(SERVED), "s", "s"),
    "a Subscription that is somebody else's now": (table(SERVED, State.OTHERS), "s", "s"),
    "an entry that left its channel, core": (table(SERVED, core=True), "", ""),
    "an entry that left its channel, own": (table(SERVED, entry=True), "", ""),
    "a Subscription that core has not added yet": (table(SERVED, FORMER, core=True), "s", ""),
    "a Subscription that core has added and removed": (table(SERVED, FORMER, entry=True, core=True), "", ""),
    "a Subscription that core has not added, of a channel that is being deleted": (
        table(DELETING, FORMER, core=True),
        "",
        "",
    ),
    "an entry whose channel is not there": (table(core=True), "c s", "c s"),
    "an entry whose channel is being deleted": (table(DELETING, core=True), "", ""),
    "a Subscription whose channel is being deleted": (table(GONE), "", ""),
    "an entry whose channel is not valid now": (table(INVALID, core=True), "c s", "s"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_published_resources_stay_as_their_row_says(row: tuple[Table, str, str]) -> None:
    view, retained, foreign = row
    kept = keep(view, PUBLISHED)
    assert (kept.retained, kept.foreign) == (ids(*retained.split()), ids(*foreign.split()))


CREATED = {
    "c": Removal("c", "KafkaChannel", "ns/c", "t-c", topics=("t-c", "t-c.dlq")),
    "s": Removal("s", "Subscription", "ns/s", "t-c", group="kafka.s"),
}
CREATION_ROWS = {
    "nothing is listed yet": (table(synced=False), "c s"),
    "not valid now": (table(INVALID, INVALID), "c s"),
    "the list is missing": (table(), "c"),
    "being deleted": (table(DELETING, DELETING), ""),
    "the channel is being deleted": (table(DELETING, INVALID), "s"),
    "an entry that left its channel": (table(SERVED, entry=True), "c"),
}


@pytest.mark.parametrize("row", CREATION_ROWS.values(), ids=CREATION_ROWS)
def test_what_stays_of_that_which_was_never_published(row: tuple[Table, str]) -> None:
    assert keep_creations(row[0], CREATED) == ids(*row[1].split())


def limited(*lists: tuple[str, str]) -> Table:
    """An empty cluster of which only these can be listed."""
    made = table()
    made.lists = frozenset(lists)
    return made


VANISHED_ROWS = {
    "nothing is listed yet": (table(synced=False), ""),
    "not valid now": (table(INVALID, INVALID), ""),
    "an empty cluster: of a group alone, nothing would be left behind": (table(), "c"),
    "an empty namespace": (limited(("KafkaChannel", "ns")), "c"),
    "other namespaces": (limited(("KafkaChannel", "n"), ("KafkaChannel", "nsx")), ""),
    "its kind is not installed": (limited(("Subscription", "")), ""),
    "being deleted": (table(GONE, DELETING), ""),
    "served": (table(SERVED), ""),
}


@pytest.mark.parametrize("row", VANISHED_ROWS.values(), ids=VANISHED_ROWS)
def test_which_objects_have_vanished_before_they_were_published(row: tuple[Table, str]) -> None:
    assert vanished(row[0], CREATED) == ids(*row[1].split())


def test_subscription_without_its_channel_in_the_contract_stays_until_objects_are_listed() -> None:
    assert keep(table(synced=False), {"s": PUBLISHED["s"]}).retained == ids("s")
    assert keep(table(), {"s": PUBLISHED["s"]}).retained == ids()


def test_what_a_person_wants_removed_does_not_stay() -> None:
    cluster = table()
    for uid in ("c", "s"):
        cluster.rows[uid].released = True
    kept = keep(cluster, PUBLISHED)
    assert kept.retained == kept.foreign == ids()


def test_channel_is_released_only_with_its_subscriptions() -> None:
    assert removable(["c"], PUBLISHED.values()) == ids()
    assert removable(["s"], PUBLISHED.values()) == ids("s")
    assert removable(["c", "s"], PUBLISHED.values()) == ids("c", "s")


def test_problem_names_an_object_and_the_command() -> None:
    (problem,) = foreign_problem(["c", "s"], PUBLISHED, "https://api")
    assert "KafkaChannel ns/c and 1 more" in problem.what
    assert "penstock remove KafkaChannel/ns/c --yes" in problem.hint
    assert foreign_problem([], PUBLISHED, "https://api") == ()
