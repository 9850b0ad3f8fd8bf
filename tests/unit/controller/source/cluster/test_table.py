"""The table of a cluster's objects: their states, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.source.cluster.keeping import keep, keep_creations
from controller.source.cluster.objects import FINALIZER, ClusterObject, read_object
from controller.source.cluster.store import uid_of
from controller.source.cluster.table import DELETED, STAYING, Refusal, State, Table
from knative.contract.leader_state import Removal
from knative.contract.records import Channel
from knative.resources.values import KafkaChannel
from tests.support.profiles import examples

CLASS = "eventing.knative.dev/broker.class"
NOW = "2026-01-01T00:00:00Z"
API = {
    "KafkaChannel": "messaging.knative.dev/v1beta1",
    "Subscription": "messaging.knative.dev/v1",
    "Broker": "eventing.knative.dev/v1",
    "Trigger": "eventing.knative.dev/v1",
    "ResetOffset": "kafka.eventing.knative.dev/v1alpha1",
}


def raw(kind: str = "KafkaChannel", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    base = {"namespace": "ns", "name": "one", "uid": "u1", "generation": 3, "resourceVersion": "5"}
    made = {"apiVersion": API[kind], "kind": kind, "metadata": {**base, **metadata}}
    return made if spec is None else {**made, "spec": spec}


def broker(class_: str, name: str = "b", **metadata: Any) -> dict[str, Any]:
    return raw("Broker", {}, name=name, uid=name, annotations={CLASS: class_}, **metadata)


def table(*raws: dict[str, Any], core: bool = False) -> Table:
    made = Table(core, synced=True)
    made.read(raws, ())
    return made


def of_channel(kind: str, name: str = "orders") -> dict[str, Any]:
    return {"channel": {"apiVersion": "messaging.knative.dev/v1", "kind": kind, "name": name}}


CHANNEL_REF = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "orders"}
SUBSCRIPTION = raw("Subscription", {"channel": CHANNEL_REF, "subscriber": {"uri": "http://x/"}})
TRIGGER_SPEC = {"broker": "b", "subscriber": {"uri": "http://x/"}}
TRIGGER = raw("Trigger", TRIGGER_SPEC)
RESET_SPEC = {
    "offset": {"time": "latest"},
    "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "name": "billing"},
}
RESET = raw("ResetOffset", RESET_SPEC)
NOT_VALID = {"numPartitions": 0}


def with_(given: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The same object with other metadata."""
    return {**given, "metadata": {**given["metadata"], **metadata}}


OURS_TOO: dict[str, Any] = {"finalizers": ["x/y", FINALIZER]}
ANNOTATED: dict[str, Any] = {"annotations": {"messaging.knative.dev/subscribable": "v1", "x": "y"}}
GOING: dict[str, Any] = {"deletionTimestamp": NOW}

#: The object, those beside it, whether core is there, its state.
STATES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], bool, State]] = {
    "a new channel": (raw(), [], False, State.LISTED),
    "a channel with our finalizer": (raw(**OURS_TOO), [], False, State.SERVED),
    "a channel that is not valid": (raw(spec=NOT_VALID), [], False, State.INVALID),
    "a channel that is not valid any more": (raw(spec=NOT_VALID, **OURS_TOO), [], False, State.INVALID),
    "a channel that is being deleted": (raw(**OURS_TOO, **GOING), [], False, State.DELETING),
    "a channel that is not valid and being deleted": (raw(spec=NOT_VALID, **GOING), [], False, State.DELETING),
    "a ResetOffset, which has no finalizer": (RESET, [], True, State.SERVED),
    "a Broker of ours": (broker("Kafka", **OURS_TOO), [], True, State.SERVED),
    "a Broker of another class": (broker("MT"), [], True, State.LISTED),
    "a Broker that has another class now": (broker("MT", **OURS_TOO), [], True, State.SERVED),
    "a Subscription": (SUBSCRIPTION, [], False, State.LISTED),
    "a Subscription that is not valid": (raw("Subscription", {}), [], False, State.INVALID),
    "a Subscription, with core": (SUBSCRIPTION, [], True, State.OTHERS),
    "a Subscription that is being deleted, with core": (with_(SUBSCRIPTION, **GOING), [], True, State.OTHERS),
    "a Subscription that was ours": (with_(SUBSCRIPTION, **OURS_TOO), [], True, State.FORMER),
    "the same, being deleted": (with_(SUBSCRIPTION, **OURS_TOO, **GOING), [], True, State.LEAVING),
    "the same, without core": (with_(SUBSCRIPTION, **OURS_TOO), [], False, State.SERVED),
    "a Trigger of our Broker": (TRIGGER, [broker("Kafka")], True, State.LISTED),
    "a Trigger of our Broker that is not valid": (
        raw("Trigger", {"broker": "b"}),
        [broker("Kafka")],
        True,
        State.INVALID,
    ),
    "a Trigger of a Broker that was ours": (TRIGGER, [broker("MT", **OURS_TOO)], True, State.LISTED),
    "a Trigger of another's Broker": (TRIGGER, [broker("MT")], False, State.OTHERS),
    "a Trigger of another's Broker that is not valid": (
        raw("Trigger", {"broker": "b"}),
        [broker("MT")],
        False,
        State.OTHERS,
    ),
    "a Trigger that was ours": (with_(TRIGGER, **OURS_TOO), [broker("MT")], False, State.SERVED),
    "a Trigger without Broker": (TRIGGER, [], False, State.LISTED),
    "a Trigger without Broker that is not valid": (raw("Trigger"), [], False, State.INVALID),
    "a Trigger without Broker, with core": (TRIGGER, [], True, State.OTHERS),
}


@pytest.mark.parametrize("row", STATES.values(), ids=STATES)
def test_state_of_an_object(row: tuple[dict[str, Any], list[dict[str, Any]], bool, State]) -> None:
    given, beside, core, state = row
    assert table(given, *beside, core=core).rows[uid_of(given)].state is state


@pytest.mark.parametrize(("gone", "state"), [(["u1"], State.GONE), ([], State.MISSING)])
def test_object_that_is_not_there_was_deleted_or_is_missing(gone: list[str], state: State) -> None:
    cluster = table(raw())
    cluster.read([], gone)
    assert cluster.rows["u1"].state is state


def test_object_is_read_once() -> None:
    given = raw()
    cluster = table(given)
    (before,) = cluster.present()
    cluster.read([given], ())
    assert cluster.present()[0] is before
    cluster.read([raw()], ())
    assert cluster.present()[0] is not before


def test_what_is_remembered_outlives_the_object() -> None:
    entry = {"uid": "s", "generation": 1, "subscriberUri": "http://x/"}
    cluster = table(raw(spec={"subscribers": [entry]}, **OURS_TOO))
    assert cluster.entries() == {"s"}
    cluster.rows["u1"].released = True
    assert cluster.missing(["v"], 10.0) == {"v": 10.0}
    for _ in range(2):
        cluster.read([], ())
    assert cluster.entries() == frozenset()
    assert (cluster.rows["s"].was_entry, cluster.rows["u1"].released) == (True, True)
    assert cluster.missing(["v", "w"], 20.0) == {"v": 10.0, "w": 20.0}
    assert cluster.missing(["w"], 30.0) == {"w": 20.0}
    assert cluster.missing(["v"], 40.0) == {"v": 40.0}


#: The spec of a Subscription that is core's, beside a KafkaChannel `orders`; and whether it may be served later.
EXPECTED = {
    "of a KafkaChannel": (of_channel("KafkaChannel"), True),
    "of a KafkaChannel that is not there yet": (of_channel("KafkaChannel", "other"), True),
    "of a KafkaChannel, which is what no kind means": ({"channel": {"name": "orders"}}, True),
    "of a Channel that a KafkaChannel backs": (of_channel("Channel"), True),
    "of a Channel that something else backs": (of_channel("Channel", "other"), False),
    "of a channel of another kind": (of_channel("InMemoryChannel"), False),
    "of no channel": ({}, False),
    "without a spec": (None, False),
    "of a text": ({"channel": "orders"}, False),
}


@pytest.mark.parametrize("row", EXPECTED.values(), ids=EXPECTED)
def test_subscriptions_of_core_that_a_reset_offset_may_wait_for(row: tuple[dict[str, Any] | None, bool]) -> None:
    spec, expected = row
    cluster = table(raw(name="orders", uid="c"), raw("Subscription", spec), core=True)
    assert cluster.expected() == {
        ("KafkaChannel", "ns", "orders"),
        *([("Subscription", "ns", "one")] if expected else []),
    }


@pytest.mark.parametrize("core", [False, True])
def test_reset_offset_waits_for_what_is_ours_unless_it_is_being_deleted(core: bool) -> None:
    going = raw("Subscription", of_channel("KafkaChannel"), uid="s", **GOING)
    assert table(raw(), going, core=core).expected() == {("KafkaChannel", "ns", "one")}


@pytest.mark.parametrize(
    ("class_", "finalizers", "written"), [("Kafka", [], True), ("MT", [], False), ("MT", [FINALIZER], True)]
)
def test_trigger_whose_broker_is_somebody_elses_now_is_not_written(
    class_: str, finalizers: list[str], written: bool
) -> None:
    """Its Broker was deleted and created again with another class. It has our finalizer until it goes."""
    trigger = with_(TRIGGER, **OURS_TOO)
    cluster = table(broker(class_, finalizers=finalizers), trigger, core=True)
    assert cluster.rows["u1"].state is State.SERVED
    assert ("u1" in {item.uid for item in cluster.written()}) is written
    assert len(table(trigger, core=True).written()) == 1, "as long as nothing is known of its Broker"


def test_brokers_of_others_are_known_and_ghosts_are_set_apart() -> None:
    entries = [{"uid": uid, "generation": 1, "subscriberUri": "http://x/"} for uid in ("u1", "ghost")]
    channel = raw(uid="c", spec={"subscribers": entries}, **OURS_TOO)
    cluster = table(channel, SUBSCRIPTION, broker("MT"), raw(uid="new"), core=True)
    served, other = cluster.objects()
    assert isinstance(served.resource, KafkaChannel)
    assert [entry.uid for entry in served.resource.subscribers] == ["u1"]
    assert [entry.uid for entry in served.resource.ghosts] == ["ghost"]
    assert other.uid == "b"
    (served,) = table(channel).objects()
    assert isinstance(served.resource, KafkaChannel)
    assert len(served.resource.subscribers) == 2, "without core, a channel means what it says"


#: The object, what is in Kafka, its finalizers if they change.
FINALIZERS: dict[str, tuple[dict[str, Any], str, list[str] | None]] = {
    "a new channel gets it": (raw(), "", [FINALIZER]),
    "others keep theirs": (raw(finalizers=["x/y"]), "", ["x/y", FINALIZER]),
    "it has it": (raw(**OURS_TOO, **ANNOTATED), "", None),
    "it has it, without the annotation": (raw(**OURS_TOO), "", ["x/y", FINALIZER]),
    "not valid any more, without the annotation": (raw(spec=NOT_VALID, **OURS_TOO), "", None),
    "being deleted, never had it": (raw(**GOING), "", None),
    "being deleted, its topic is still there": (raw(**GOING, **OURS_TOO), "u1", None),
    "being deleted, nothing is left": (raw(**GOING, **OURS_TOO), "", ["x/y"]),
    "not valid": (raw(spec=NOT_VALID), "", None),
    "not valid, being deleted": (raw(spec=NOT_VALID, **OURS_TOO, **GOING), "", ["x/y"]),
    "a Broker of ours": (broker("Kafka"), "", [FINALIZER]),
    "a Broker of another class": (broker("MT"), "", None),
    "a Broker that has another class now": (broker("MT", **OURS_TOO), "", ["x/y"]),
    "a Broker that has another class now, its topic is still there": (broker("MT", **OURS_TOO), "b", None),
    "a ResetOffset": (RESET, "", None),
}


@pytest.mark.parametrize("row", FINALIZERS.values(), ids=FINALIZERS)
def test_finalizer_comes_and_goes_as_its_row_says(row: tuple[dict[str, Any], str, list[str] | None]) -> None:
    given, in_kafka, expected = row
    cluster = table(given)
    adopted, released = cluster.adoptions(), cluster.releases(in_kafka.split())
    assert [list(change.finalizers) for change in (*adopted, *released)] == ([] if expected is None else [expected])
    assert bool(adopted) is (expected is not None and FINALIZER in expected)


def test_each_namespace_has_its_turn_for_finalizers_and_refused_ones_come_last() -> None:
    cluster = table(
        *(raw(uid=f"a{number}", name=f"n{number}", namespace="a") for number in range(3)),
        *(raw(uid=f"b{number}", name=f"n{number}", namespace="b") for number in range(2)),
    )
    cluster.rows["a0"].refused = Refusal("no", 0.0, forbidden=True)
    assert [change.object.uid for change in cluster.adoptions()] == ["a1", "b0", "a2", "b1", "a0"]


@pytest.mark.parametrize(
    ("given", "annotations"),
    [
        (raw(), {"messaging.knative.dev/subscribable": "v1"}),
        (raw(**OURS_TOO), {"messaging.knative.dev/subscribable": "v1"}),
        (raw(**OURS_TOO, annotations={"messaging.knative.dev/subscribable": "v1beta1"}),
         {"messaging.knative.dev/subscribable": "v1"}),
        (SUBSCRIPTION, {}),
        (broker("Kafka"), {}),
    ],
)  # fmt: skip
def test_channel_says_that_it_can_be_subscribed_to(given: dict[str, Any], annotations: dict[str, str]) -> None:
    (change,) = table(given).adoptions()
    assert change.annotations == annotations


@pytest.mark.parametrize(
    ("listed", "in_kafka", "goes"), [("", "u1", False), ("u1", "u1", True), ("", "", True), ("u1", "", True)]
)
@pytest.mark.parametrize("deleted", [{}, GOING], ids=["there", "deleted"])
def test_core_has_what_it_has_written_into_a_channel(
    listed: str, in_kafka: str, goes: bool, deleted: dict[str, str]
) -> None:
    entries = [{"uid": uid, "generation": 1, "subscriberUri": "http://x/"} for uid in listed.split()]
    channel = raw(uid="c", spec={"subscribers": entries}, **OURS_TOO)
    former = with_(SUBSCRIPTION, finalizers=["core.example/x", FINALIZER], **deleted)
    changes = table(channel, former, core=True).releases(in_kafka.split())
    assert [change.finalizers for change in changes] == ([("core.example/x",)] if goes else [])
    if deleted:
        changes = table(channel, former).releases(in_kafka.split())
        assert [change.object.uid for change in changes] == ([] if in_kafka else ["u1"]), "ours goes last"


#: A uid, and what happens to its object: it is created or changed, gets or loses our finalizer, is being deleted, is
#: deleted, gets lost, or (without a uid) core comes or goes.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["change", "break", "adopt", "free", "delete", "gone", "lost", "core"]),
    ),
    max_size=40,
)
KIND_OF = dict(
    zip("abcdef", ["KafkaChannel", "Subscription", "Broker", "Broker", "Trigger", "ResetOffset"], strict=True)
)
VALID = {
    "KafkaChannel": {"subscribers": [{"uid": "b", "generation": 1, "subscriberUri": "http://x/"}]},
    "Subscription": SUBSCRIPTION["spec"],
    "Broker": {},
    "Trigger": {**TRIGGER_SPEC, "broker": "c"},
    "ResetOffset": RESET_SPEC,
}


@examples(300)
@given(EVENTS)
def test_after_any_events_each_uid_has_one_state_and_nothing_is_removed_by_accident(
    events: list[tuple[str, str]],
) -> None:
    cluster, gone = Table(synced=True), set[str]()
    live: dict[str, dict[str, Any]] = {}
    published = {uid: Channel(uid, 1, "ns", uid, f"t-{uid}", f"t-{uid}.dlq", 1) for uid in "acdz"}
    creations = {uid: Removal(uid, "KafkaChannel", f"ns/{uid}", "t", topics=("t",)) for uid in "acdz"}
    for uid, event in events:
        kind = KIND_OF[uid]
        now = live.get(uid) or raw(
            kind, VALID[kind], name=uid, uid=uid, annotations={CLASS: "MT" if uid == "d" else "Kafka"}
        )
        if event == "core":
            cluster.core = not cluster.core
        elif event in ("gone", "lost"):
            if live.pop(uid, None) is not None and event == "gone":
                gone.add(uid)
        elif uid not in gone:  # the API server gives each uid once
            spec = {**VALID[kind], "delivery": {"retry": -1}, "offset": 1} if event == "break" else VALID[kind]
            live[uid] = {**now, "spec": spec}
            if event in ("adopt", "free"):
                live[uid] = with_(now, finalizers=[FINALIZER] if event == "adopt" else [])
            elif event == "delete":
                live[uid] = with_(now, **GOING)
        cluster.read(live.values(), gone)
        _check(cluster, live, gone)
        kept = keep(cluster, published)
        assert kept.foreign <= kept.retained
        removed = published.keys() - kept.retained - {served.uid for served in cluster.present(State.SERVED)}
        assert removed == {uid for uid in published if cluster.rows[uid].state in DELETED}
        assert keep_creations(cluster, creations) == published.keys() - removed


def _check(cluster: Table, live: dict[str, Any], gone: set[str]) -> None:
    for uid, row in cluster.rows.items():
        item: ClusterObject | None = row.object
        assert (item is not None) == (uid in live)
        if item is None:
            assert row.state is (State.GONE if uid in gone else State.MISSING)
            continue
        assert item == read_object(live[uid])
        if row.state is State.SERVED:
            assert item.resource is not None
        if row.state in STAYING | {State.FORMER}:
            assert not item.deleting
        if row.state in (State.FORMER, State.LEAVING, State.OTHERS):
            assert item.kind in ("Subscription", "Trigger")
    adopted = {change.object.uid for change in cluster.adoptions()}
    assert adopted.isdisjoint(change.object.uid for change in cluster.releases(()))
    entries = cluster.entries()
    assert {change.object.uid for change in cluster.releases(live)} <= entries


#: Objects that may be there, in several states each; those of one name exclude each other.
CANDIDATES = [
    broker("Kafka"),
    broker("MT"),
    {**broker("Kafka"), "metadata": {**broker("Kafka")["metadata"], "uid": "b2"}},
    broker("Kafka", **OURS_TOO),
    TRIGGER,
    with_(TRIGGER, **OURS_TOO),
    with_(TRIGGER, **OURS_TOO, **GOING),
    raw("Trigger", {"broker": "c", "subscriber": {"uri": "http://x/"}}),
    with_(SUBSCRIPTION, name="sub", uid="s"),
    with_(SUBSCRIPTION, name="sub", uid="s", **OURS_TOO),
    raw(uid="c", spec={"subscribers": [{"uid": "s", "generation": 1, "subscriberUri": "http://x/"}]}, **OURS_TOO),
    raw(uid="c", **OURS_TOO),
    raw(uid="c", **OURS_TOO, **ANNOTATED),
    raw(uid="c", spec=NOT_VALID),
]


@given(st.booleans(), st.lists(st.tuples(st.sampled_from(CANDIDATES), st.booleans()), max_size=15))
def test_following_changes_ends_where_reading_everything_does(
    core: bool, steps: list[tuple[dict[str, Any], bool]]
) -> None:
    """What is said to be decided in another way is what is seen in another way."""
    cluster, live = table(core=core), dict[tuple[str, str], dict[str, Any]]()
    for step, (given_, put) in enumerate(steps):
        key = given_["kind"], given_["metadata"]["name"]
        before = {uid: (row.state, cluster.object_of(uid)) for uid, row in cluster.rows.items()}
        old = live.pop(key, None)
        away = [uid_of(old)] if old is not None and (not put or uid_of(old) != uid_of(given_)) else []
        if put:
            live[key] = with_(given_, resourceVersion=str(step))
        changed = cluster.update([live[key]] if put else [], away, ())
        whole = table(*live.values(), core=core)
        seen = {uid: (row.state, cluster.object_of(uid)) for uid, row in cluster.rows.items() if row.object is not None}
        assert seen == {uid: (row.state, whole.object_of(uid)) for uid, row in whole.rows.items() if row.object}
        assert cluster.entries() == whole.entries()
        for changes in (Table.adoptions, lambda given_: Table.releases(given_, ())):
            assert {change.object.uid for change in changes(cluster)} == {
                change.object.uid for change in changes(whole)
            }
        assert cluster.expected() == whole.expected()
        assert {uid for uid in seen if before.get(uid) != seen[uid]} <= changed
