"""How conditions make one, and when they last changed."""

from __future__ import annotations

from knative.resources.conditions import ConditionStatus, false, ready, true, unknown, with_note, with_transitions


def test_ready_is_the_worst_of_its_parts_in_order() -> None:
    fine, waits, broken = true("A"), unknown("B", "Waits", "soon"), false("C", "Broken", "mend it")
    assert ready([fine]).status is ConditionStatus.TRUE
    assert (ready([fine, waits]).status, ready([fine, waits]).reason) == (ConditionStatus.UNKNOWN, "Waits")
    assert (ready([waits, broken]).status, ready([waits, broken]).message) == (ConditionStatus.FALSE, "mend it")


def test_transition_is_a_change_of_status_only() -> None:
    first = with_transitions([true("A"), false("B", "X", "x")], [], "t1")
    second = with_transitions([true("A", "Other"), true("B")], first, "t2")
    assert [condition.last_transition for condition in second] == ["t1", "t2"]


def test_empty_fields_are_left_out() -> None:
    assert true("A").as_dict() == {"type": "A", "status": "True"}


def test_note_is_shown_where_all_is_well_and_nowhere_else() -> None:
    note, broken = true("A", "Odd", "but it works"), false("B", "Broken", "mend it")
    assert with_note(ready([note]), [true("C"), note]) == true("Ready", "Odd", "but it works")
    assert with_note(ready([true("C")]), [true("C")]) == true("Ready")
    assert with_note(ready([note, broken]), [note]).reason == "Broken"
