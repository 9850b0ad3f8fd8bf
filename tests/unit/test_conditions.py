"""How conditions make one, and when they last changed."""

from __future__ import annotations

from knative.conditions import Truth, false, ready, true, unknown, with_transitions


def test_ready_is_the_worst_of_its_parts_the_first_one_said() -> None:
    fine, waits, broken = true("A"), unknown("B", "Waits", "soon"), false("C", "Broken", "mend it")
    assert ready([fine]).status is Truth.TRUE
    assert (ready([fine, waits]).status, ready([fine, waits]).reason) == (Truth.UNKNOWN, "Waits")
    assert (ready([waits, broken]).status, ready([waits, broken]).message) == (Truth.FALSE, "mend it")


def test_a_transition_is_a_change_of_status_only() -> None:
    first = with_transitions([true("A"), false("B", "X", "x")], [], "t1")
    second = with_transitions([true("A", "Other"), true("B")], first, "t2")
    assert [one.last_transition for one in second] == ["t1", "t2"]


def test_empty_fields_are_left_out() -> None:
    assert true("A").as_dict() == {"type": "A", "status": "True"}
