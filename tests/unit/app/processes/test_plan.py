"""The supervisor's plan: what happens to each seat, without processes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.processes.plan import TRANSITIONS, Action, Event, Plan, PlannedSeat, State
from app.timing import LONGEST_WAIT_S
from knative.errors import ExitCode

HAS_PROCESS = (State.STARTING, State.SERVING, State.OLD, State.LEAVING, State.STOPPING)
KILLED = -9


def done(steps: Iterable[tuple[PlannedSeat, Action]]) -> list[tuple[int, Action]]:
    return [(seat.number, action) for seat, action in steps if action is not Action.NONE]


def serving(count: int) -> Plan:
    plan = Plan(count)
    assert done(plan.due(0.0)) == [(number, Action.FORK) for number in range(count)]
    for number in range(count):
        plan.started(number, 1.0)
    return plan


def states(plan: Plan) -> list[State]:
    return [seat.state for seat in plan.seats]


@pytest.mark.parametrize("state", HAS_PROCESS)
@pytest.mark.parametrize("event", [Event.DIED, Event.LEFT])
def test_end_is_followed_in_every_state_that_has_a_process(state: State, event: Event) -> None:
    after, action = TRANSITIONS[state, event]
    stops = state is State.STOPPING
    assert action is (Action.NONE if stops else Action.PAUSE if event is Event.DIED else Action.FORK)
    assert after is (State.GONE if stops else State.PAUSED if event is Event.DIED else State.STARTING)


@pytest.mark.parametrize("state", [state for state in State if state not in (State.STOPPING, State.GONE)])
def test_stop_ends_every_state(state: State) -> None:
    assert TRANSITIONS[state, Event.STOP][0] is (State.GONE if state is State.PAUSED else State.STOPPING)


def test_nothing_follows_a_seat_that_is_gone() -> None:
    assert not [event for state, event in TRANSITIONS if state is State.GONE]


def test_what_dies_starts_again_after_pauses_that_grow() -> None:
    plan, now, pauses = serving(2), 10.0, []
    for _ in range(8):
        assert done(plan.ended(1, KILLED, now)) == [(1, Action.PAUSE)]
        assert done(plan.due(now)) == []
        due_at = plan.next_at()
        assert due_at is not None
        pauses.append(due_at - now)
        now = due_at
        assert done(plan.due(now)) == [(1, Action.FORK)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert done(plan.ended(1, KILLED, now + LONGEST_WAIT_S + 1)) == [(1, Action.PAUSE)]
    assert plan.next_at() == now + LONGEST_WAIT_S + 2  # it worked for long, so the pauses begin again


def test_first_one_leaves_so_the_supervisor_executes_itself() -> None:
    plan = serving(2)
    assert done(plan.ended(0, ExitCode.LEFT, 5.0)) == [(0, Action.RENEW)]
    assert done(plan.due(5.0)) == [(0, Action.FORK)], "when that is not possible, it forks with the code that it has"


def test_another_one_leaves_and_is_forked_at_once() -> None:
    assert done(serving(2).ended(1, ExitCode.LEFT, 5.0)) == [(1, Action.FORK)]


def test_former_processes_are_replaced_one_after_the_other() -> None:
    plan = Plan(3, old=[1, 2])
    assert done(plan.due(0.0)) == [(0, Action.FORK)]
    assert done(plan.due(1.0)) == [], "not before the first one serves"
    plan.started(0, 2.0)
    assert done(plan.due(2.0)) == [(1, Action.HAND_OVER)]
    assert done(plan.due(3.0)) == []
    assert done(plan.ended(1, ExitCode.LEFT, 4.0)) == [(1, Action.FORK)]
    assert done(plan.due(4.0)) == []
    plan.started(1, 5.0)
    assert done(plan.due(5.0)) == [(2, Action.HAND_OVER)]
    assert done(plan.ended(2, ExitCode.LEFT, 6.0)) == [(2, Action.FORK)]
    plan.started(2, 7.0)
    assert states(plan) == [State.SERVING] * 3


def test_former_processes_go_on_while_a_new_one_does_not_start() -> None:
    plan = Plan(2, old=[1])
    assert done(plan.due(0.0)) == [(0, Action.FORK)]
    assert done(plan.ended(0, ExitCode.FAILED, 1.0)) == [(0, Action.PAUSE)]
    assert done(plan.due(2.0)) == [(0, Action.FORK)]
    assert states(plan)[1] is State.OLD


def test_processes_that_are_too_many_hand_over_when_all_others_are_new() -> None:
    plan = Plan(2, old=[1, 3])
    assert done(plan.due(0.0)) == [(0, Action.FORK)]
    plan.started(0, 1.0)
    assert done(plan.due(1.0)) == [(1, Action.HAND_OVER)]
    assert done(plan.ended(1, ExitCode.LEFT, 2.0)) == [(1, Action.FORK)]
    assert done(plan.due(2.0)) == []
    plan.started(1, 3.0)
    assert done(plan.due(3.0)) == [(3, Action.HAND_OVER)]
    assert done(plan.ended(3, ExitCode.LEFT, 4.0)) == done(plan.due(4.0)) == []
    assert states(plan) == [State.SERVING, State.SERVING, State.GONE, State.GONE]
    assert plan.code == 0


def test_process_that_is_too_many_and_dies_gets_no_other() -> None:
    plan = Plan(1, old=[1])
    assert done(plan.ended(1, KILLED, 1.0)) == []
    assert states(plan) == [State.PAUSED, State.GONE]


def test_second_change_replaces_what_the_first_one_has_replaced() -> None:
    plan = Plan(2, old=[1])
    assert done(plan.due(0.0)) == [(0, Action.FORK)]
    plan.started(0, 1.0)
    assert done(plan.due(1.0)) == [(1, Action.HAND_OVER)]
    assert done(plan.ended(0, ExitCode.LEFT, 2.0)) == [(0, Action.RENEW)]


@pytest.mark.parametrize(
    ("code", "has_served", "ends"),
    [
        (ExitCode.USAGE, False, True),
        (ExitCode.USAGE, True, False),
        (ExitCode.NOT_READY, False, True),
        (ExitCode.NOT_READY, True, False),
        (ExitCode.FAILED, False, False),
        (ExitCode.INTERNAL, True, False),
        (KILLED, False, False),
        (0, True, False),
    ],
)
def test_exit_code_that_asks_for_people_ends_all(code: int, has_served: bool, ends: bool) -> None:
    plan = Plan(2)
    done(plan.due(0.0))
    if has_served:
        plan.started(1, 1.0)
    steps = done(plan.ended(0, code, 2.0))
    assert steps == ([(0, Action.PAUSE), (1, Action.STOP)] if ends else [(0, Action.PAUSE)])
    assert plan.is_stopping is ends
    assert plan.code == (code if ends else 0)


@pytest.mark.parametrize(("codes", "code"), [((0, 0), 0), ((0, 70), 70), ((1, 70), 1), ((KILLED, 0), 1)])
def test_exit_code_of_a_stop_is_that_of_the_first_process_that_failed(codes: tuple[int, int], code: int) -> None:
    plan = serving(2)
    assert done(plan.stop(5.0)) == [(0, Action.STOP), (1, Action.STOP)]
    for number, ended in enumerate(codes):
        assert not plan.is_over
        assert done(plan.ended(number, ended, 6.0)) == []
    assert plan.is_over
    assert plan.code == code


@given(st.data())
def test_after_any_history_a_stop_ends_with_no_process(data: st.DataObject) -> None:
    """A process is forked only in a seat that has none, and every process that was forked ends."""
    plan, running, now = Plan(3, old=[1]), {1}, 0.0

    def follow(steps: Iterable[tuple[PlannedSeat, Action]]) -> None:
        for seat, action in steps:
            if action is Action.FORK:
                assert seat.number not in running
                running.add(seat.number)
            if action in (Action.STOP, Action.HAND_OVER):
                assert seat.number in running

    for _ in range(data.draw(st.integers(0, 12))):
        now += data.draw(st.sampled_from([0.1, 5.0, 100.0]))
        follow(plan.due(now))
        if running:
            number = data.draw(st.sampled_from(sorted(running)))
            code = data.draw(st.sampled_from([None, 0, 1, 3, KILLED, ExitCode.LEFT]))
            if code is None:
                plan.started(number, now)
            else:
                running.discard(number)
                follow(plan.ended(number, code, now))
    follow(plan.stop(now))
    for number in sorted(running):
        running.discard(number)
        follow(plan.ended(number, 0, now))
    follow(plan.due(now + 1000))
    assert not running
    assert plan.is_over
