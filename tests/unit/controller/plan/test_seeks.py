"""Seeks: what is refused, what they wait for, and that a controller may die at every step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plan.actions import (
    ClusterView,
    ForgetSeek,
    GroupState,
    Object,
    PublishSubscription,
    RememberSeek,
)
from controller.plan.seeks import in_phase
from knative.contract.records import WorkerState, WorkerStatus
from knative.contract.seeks import TRANSITIONS, Seek, SeekPhase, SeekRequest
from knative.resources.destination import Destination
from knative.resources.values import ResetOffset, Subscriber
from tests.unit.controller.seek_worlds import GROUP, OBJECTS, UID, phase, seen, served, working
from tests.unit.controller.worlds import (
    CONFIG,
    FALSE,
    NOW,
    TOPIC,
    TRUE,
    UNKNOWN,
    Kafka,
    channel,
    condition,
    message,
    names_of,
    reset,
    subscription,
    trigger,
)


def test_reset_stops_moves_and_starts() -> None:
    kafka, wish = served(), reset(to="earliest")
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    assert names_of(kafka.settle(*OBJECTS, wish)) == ["RememberSeek", "PublishSubscription"]
    record = kafka.world.subscriptions[UID]
    assert (record.stopped, record.seek, phase(kafka)) == (True, "r-again", SeekPhase.STOPPING)
    assert condition(kafka.status(wish, *OBJECTS)) == (UNKNOWN, "Stopping")
    assert "worker w has not stopped the subscription yet" in message(kafka.status(wish, *OBJECTS))
    seen(kafka, working(kafka))
    assert names_of(kafka.settle(*OBJECTS, wish)) == [
        "FindOffsets",
        "MoveOffsets",
        "RememberSeek",
        "PublishSubscription",
        "RememberSeek",
    ]
    assert kafka.offsets[GROUP] == {0: 0, 1: 0}
    assert not kafka.world.subscriptions[UID].stopped
    status = kafka.status(wish, *OBJECTS)
    assert [part.status for part in status.conditions] == [TRUE] * 5
    assert status.body == {
        "topic": kafka.world.subscriptions[UID].topic,
        "group": GROUP,
        "partitions": [
            {"partition": 0, "oldOffset": 5, "newOffset": 0},
            {"partition": 1, "oldOffset": 7, "newOffset": 0},
        ],
    }
    assert kafka.settle(*OBJECTS, wish) == [], "it is not repeated"


@pytest.mark.parametrize(
    ("wish", "reason", "part"),
    [
        (reset(to="2099-01-01T00:00:00Z"), "TimeInFuture", "RefMapped"),
        (reset(ref="nope"), "SubscriptionNotFound", "RefMapped"),
        (reset(ref="billing", ref_kind="Trigger"), "TriggerNotFound", "RefMapped"),
    ],
)
def test_seek_that_cannot_be_is_refused_for_good(wish: Object[ResetOffset], reason: str, part: str) -> None:
    kafka = served()
    assert names_of(kafka.settle(*OBJECTS, wish)) == ["RememberSeek"]
    status = kafka.status(wish, *OBJECTS)
    assert condition(status) == condition(status, part) == (FALSE, reason)
    assert not kafka.world.subscriptions[UID].stopped
    seek = kafka.world.seeks["r-again"]
    kafka.settle(*OBJECTS, subscription("nope"), trigger(), wish, now=5e9)
    assert kafka.world.seeks == {"r-again": seek}, "also when the time has come, or the missing object"


def test_seek_waits_for_a_subscription_that_is_not_published() -> None:
    kafka, wish = Kafka(), reset()
    assert kafka.decide(subscription(), wish) == [], "its channel is missing"
    assert "not served yet" in message(kafka.status(wish, subscription()))


def test_seek_waits_for_an_entry_of_a_channel_that_is_not_published() -> None:
    listed = (channel(subscribers=(Subscriber("s-nope", "nope", 1, Destination(uri="http://x/")),)), reset(ref="nope"))
    kafka = Kafka()
    assert "RememberSeek" not in names_of(kafka.decide(*listed))
    assert "not served yet" in message(kafka.status(listed[1], listed[0]))


def test_seek_waits_for_what_cores_controller_will_write() -> None:
    kafka, wish = served(), reset(ref="nope")
    core = ClusterView(expected=frozenset({("Subscription", "default", "nope")}))
    assert kafka.decide(*OBJECTS, wish, cluster=core) == []
    assert "not served yet" in message(kafka.status(wish, *OBJECTS, cluster=core))


@pytest.mark.parametrize(
    ("age_s", "refused"), [(0.0, False), (CONFIG.seek_ref_s - 1, False), (CONFIG.seek_ref_s, True)]
)
def test_what_a_new_object_refers_to_may_appear_after_it(age_s: float, refused: bool) -> None:
    kafka, wish = served(), reset(ref="nope", created=NOW - age_s)
    assert names_of(kafka.decide(*OBJECTS, wish, now=NOW)) == (["RememberSeek"] if refused else [])
    if not refused:
        status = kafka.status(wish, *OBJECTS, now=NOW)
        assert condition(status) == (UNKNOWN, "Pending")
        assert "there is no Subscription default/nope" in message(status)


def test_seek_waits_until_all_resources_are_read() -> None:
    kafka, wish = served(), reset(ref="nope")
    assert kafka.decide(*OBJECTS, wish, complete=False) == []
    assert condition(kafka.status(wish, *OBJECTS, complete=False)) == (UNKNOWN, "Pending")


def test_seeks_of_a_subscription_go_one_after_the_other() -> None:
    kafka, first, second = served(), reset("again"), reset("later", to="latest")
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, first, second)
    assert kafka.world.seeks.keys() == {"r-again"}
    assert "ResetOffset default/again" in message(kafka.status(second, first, *OBJECTS))
    seen(kafka, working(kafka))
    kafka.settle(*OBJECTS, first, second)
    assert phase(kafka) is SeekPhase.DONE
    seen(kafka, working(kafka, reason="r-later"))
    kafka.settle(*OBJECTS, first, second)
    assert [(move.old, move.new) for move in kafka.world.seeks["r-later"].moves] == [(0, 9), (0, 9)]


def test_worker_that_stopped_for_an_earlier_seek_has_not_stopped_for_this_one() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, reason="r-earlier"))
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.STOPPING


@pytest.mark.parametrize(
    ("state", "silent", "moves"),
    [
        (WorkerState.RUNNING, False, False),
        (WorkerState.RUNNING, True, True),
        (WorkerState.STARTING, False, False),
        (WorkerState.FAILED, False, False),
        (WorkerState.UNSUPPORTED, False, True),
    ],
)
def test_seek_waits_for_workers_that_have_not_stopped(state: WorkerState, silent: bool, moves: bool) -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, state, "x"), silent=frozenset({"w"} if silent else ()))
    kafka.settle(*OBJECTS, wish)
    assert (phase(kafka) is SeekPhase.DONE) is moves


def test_seek_waits_for_a_worker_that_reports_nothing_of_it() -> None:
    kafka, wish = served(), reset()
    seen(kafka, WorkerStatus("w", NOW, "all", {}))
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.STOPPING


def test_seek_waits_for_the_members_of_the_group_to_leave() -> None:
    kafka, wish = served(), reset()
    kafka.groups[GROUP] = GroupState.LIVE
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.STOPPING
    kafka.groups[GROUP] = GroupState.EMPTY
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.DONE


def test_withdrawn_seek_ends_before_anything_is_moved() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    kafka.settle(*OBJECTS)
    assert not kafka.world.subscriptions[UID].stopped
    assert kafka.offsets[GROUP] == {0: 5, 1: 7}
    assert kafka.world.seeks == {}


def test_seek_is_completed_although_it_is_withdrawn_while_offsets_move() -> None:
    kafka, wish = served(), reset()
    kafka.settle(*OBJECTS, wish)
    moving = replace(kafka.world.seeks["r-again"], phase=SeekPhase.MOVING)
    record = replace(kafka.world.subscriptions[UID], stopped=True)
    kafka.offsets[GROUP] = {0: 5, 1: 0}  # one partition was moved when the leader died
    kafka.world = replace(kafka.world, seeks={"r-again": moving}, subscriptions={UID: record})
    done = kafka.settle(*OBJECTS)
    assert names_of(done) == ["MoveOffsets", "RememberSeek", "PublishSubscription", "RememberSeek", "ForgetSeek"]
    assert kafka.offsets[GROUP] == {0: 0, 1: 0}


def test_late_commit_of_a_worker_is_moved_again_before_the_start() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    seen(kafka, working(kafka))
    (find,) = kafka.decide(*OBJECTS, wish)
    kafka.act(find)
    (move,) = kafka.decide(*OBJECTS, wish)
    kafka.act(move)
    kafka.offsets[GROUP][0] = 6
    seen(kafka, working(kafka), working(kafka, WorkerState.STARTING, "", "late"))
    assert kafka.decide(*OBJECTS, wish) == [], "a worker that appears must stop first"
    seen(kafka, working(kafka), working(kafka, name="late"))
    (again,) = kafka.decide(*OBJECTS, wish)
    assert again == move


def test_seek_ends_with_a_subscription_that_is_deleted_meanwhile() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    kafka.settle(channel(partitions=2), wish)
    assert (phase(kafka), kafka.world.seeks["r-again"].reason) == (SeekPhase.REFUSED, "Deleted")


def test_change_of_the_spec_does_not_start_a_stopped_subscription() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    changed = subscription(generation=2, concurrency=7)
    kafka.settle(OBJECTS[0], changed, wish)
    record = kafka.world.subscriptions[UID]
    assert (record.generation, record.concurrency, record.stopped, record.seek) == (2, 7, True, "r-again")


def test_change_of_the_spec_and_a_seek_at_once() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.act(RememberSeek(_recorded(kafka)))
    changed = subscription(generation=2)
    for _ in range(2):
        published = [
            action.subscription
            for action in kafka.decide(OBJECTS[0], changed, wish)
            if isinstance(action, PublishSubscription)
        ]
        assert [record.generation for record in published] == [2], "a record that looks older would be ignored"
        kafka.act(PublishSubscription(published[0]))
    assert kafka.world.subscriptions[UID].stopped


def _recorded(kafka: Kafka) -> Seek:
    record = kafka.world.subscriptions[UID]
    ref = ("Subscription", "default", "billing")
    return Seek("r-again", "default/again", *ref, "earliest", SeekPhase.STOPPING, NOW, UID, record.topic, GROUP)


def test_changed_spec_of_a_reset_changes_nothing() -> None:
    kafka, wish = served(), reset()
    kafka.settle(*OBJECTS, wish)
    changed = reset(to="latest", generation=2)
    assert kafka.settle(*OBJECTS, changed) == []
    assert condition(kafka.status(changed, *OBJECTS)) == (FALSE, "Immutable")


def test_one_that_is_over_is_not_repeated_with_another_kafka() -> None:
    wish = reset()
    over = replace(wish, resource=replace(wish.resource, over=True))
    assert served().settle(*OBJECTS, over) == []
    kafka = served()
    kafka.settle(*OBJECTS, wish)
    assert condition(kafka.status(over, *OBJECTS)) == (TRUE, "OffsetsMoved"), "while it is recorded, it is shown"


def test_deleted_reset_is_forgotten() -> None:
    kafka, wish = served(), reset()
    kafka.settle(*OBJECTS, wish)
    assert kafka.decide(*OBJECTS, complete=False) == []
    assert kafka.settle(*OBJECTS) == [ForgetSeek("r-again")]


def test_subscription_without_its_seek_is_started_again() -> None:
    kafka = served()
    record = replace(kafka.world.subscriptions[UID], stopped=True, seek="r-lost")
    kafka.world = replace(kafka.world, subscriptions={UID: record})
    assert kafka.settle(*OBJECTS) == [PublishSubscription(replace(record, stopped=False))]


@pytest.mark.parametrize(
    ("to", "expected"),
    [("+2", {0: 7, 1: 9}), ("-6", {0: 0, 1: 1}), ("+100", {0: 9, 1: 9}), ("latest", {0: 9, 1: 9})],
)
def test_request_of_a_command(to: str, expected: dict[int, int]) -> None:
    kafka = served()
    request = SeekRequest("q", "Subscription", "default", "billing", to, NOW)
    kafka.settle(*OBJECTS, seek_requests=(request,))
    assert kafka.offsets[GROUP] == expected
    assert phase(kafka, "q") is SeekPhase.DONE
    assert kafka.settle(*OBJECTS) == [], "the command reads how it went"
    kafka.world = replace(kafka.world, now=NOW + CONFIG.seek_kept_s + 1)
    assert kafka.settle(*OBJECTS) == [ForgetSeek("q")]


def test_request_that_makes_no_sense_is_refused() -> None:
    kafka = served()
    kafka.settle(*OBJECTS, seek_requests=(SeekRequest("q", "Subscription", "default", "billing", "soon", NOW),))
    assert (phase(kafka, "q"), kafka.world.seeks["q"].reason) == (SeekPhase.REFUSED, "PositionInvalid")


@given(before=st.sampled_from(SeekPhase), after=st.sampled_from(SeekPhase))
def test_no_phase_is_followed_by_one_that_is_not_in_the_table(before: SeekPhase, after: SeekPhase) -> None:
    seek = replace(_recorded(served()), phase=before)
    if after in TRANSITIONS[before]:
        assert in_phase(seek, after, NOW).phase is after
    else:
        with pytest.raises(AssertionError):
            in_phase(seek, after, NOW)


@pytest.mark.parametrize(("members", "moves"), [(0, True), (1, False), (None, False)])
def test_every_member_of_the_fan_out_must_have_stopped_it(members: int | None, moves: bool) -> None:
    """A frozen worker is a member of the fan-out, and could commit. The group itself has no members."""
    objects, kafka = (channel(), subscription()), Kafka()
    kafka.settle(*objects)
    kafka.fanouts[TOPIC] = members
    kafka.settle(*objects, reset())
    assert (phase(kafka) is SeekPhase.DONE) == moves
