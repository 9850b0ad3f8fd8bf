"""Topics: how it is recognized that they were created again, and what is read of them next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic.topic_identity import TopicNow, changed, judge, positions, to_read, up_to

READ = {"t": {0: 10, 1: 20}}
WHOLE = {0: (0, 10), 1: (0, 25)}


@pytest.mark.parametrize(
    ("ids", "done", "now", "replaced", "said"),
    [
        ({"t": "a"}, READ, TopicNow("a", WHOLE), False, ""),
        ({"t": "a"}, READ, TopicNow("b", {0: (0, 99), 1: (0, 99)}), True, "created again"),
        ({}, READ, TopicNow("b", WHOLE), False, ""),
        ({}, READ, TopicNow("b", {0: (0, 9), 1: (0, 25)}), True, "so it was created again"),
        ({}, READ, TopicNow("b", {0: (0, 10)}), True, "so it was created again"),
        ({}, {"t": {0: 10, 1: 26}}, TopicNow("b", WHOLE), True, "so it was created again"),
        ({"t": "a"}, READ, TopicNow("", {0: (0, 1), 1: (0, 25)}), True, "so it was created again"),
        ({"t": "a"}, READ, TopicNow("a", {0: (0, 9), 1: (0, 25)}), False, "Kafka has lost records"),
        ({"t": "a"}, READ, TopicNow("a", {0: (12, 15), 1: (23, 25)}), False, "Up to 5 records"),
        ({"t": "a"}, READ, TopicNow("a"), False, ""),
        ({}, {}, TopicNow("b", WHOLE), False, ""),
    ],
)
def test_topic_is_replaced_when_its_id_or_its_log_says_so(
    ids: dict[str, str], done: dict[str, dict[int, int]], now: TopicNow, replaced: bool, said: str
) -> None:
    judgement = judge(ids, done, {"t": now})

    assert judgement.replaced == (("t",) if replaced else ())
    assert (len(judgement.notes) == 1 and said in judgement.notes[0]) if said else not judgement.notes


def test_only_two_known_ids_show_a_change() -> None:
    now = {"a": TopicNow("2"), "b": TopicNow("1"), "c": TopicNow(""), "d": TopicNow("1")}

    assert changed({"a": "1", "b": "1", "c": "1", "e": "1"}, now) == ["a"]


def test_next_batch_is_a_share_of_what_is_not_read() -> None:
    now = {"a": TopicNow("1", {0: (5, 105), 1: (0, 0)}), "b": TopicNow("1", {0: (0, 900), 2: (0, 10)})}
    done = {"a": {0: 2}, "b": {0: 0, 1: 7}, "c": {0: 3}}

    assert to_read(now, done, 2000) == {"a": {0: (5, 105)}, "b": {0: (0, 900), 2: (0, 10)}}
    first = to_read(now, done, 100)
    assert first == {"a": {0: (5, 14)}, "b": {0: (0, 89), 2: (0, 1)}}
    assert positions(done, first) == {"a": {0: 14}, "b": {0: 89, 1: 7, 2: 1}, "c": {0: 3}}
    assert to_read(now, positions(done, to_read(now, done, 2000)), 100) == {}


def test_run_that_ends_reads_what_was_there_when_it_began() -> None:
    first = {"a": TopicNow("1", {0: (5, 105)}), "gone": TopicNow("1", {0: (0, 9)})}
    now = {"a": TopicNow("1", {0: (7, 205), 1: (0, 10)}), "new": TopicNow("1", {0: (0, 9)})}

    assert up_to(first, now) == {"a": TopicNow("1", {0: (7, 105)})}
    again = {"a": TopicNow("2", {0: (0, 40)})}
    assert up_to(first, again) == again, "the topic that replaced it, if it is shorter"
    assert to_read(up_to(first, {"a": TopicNow("1", {0: (150, 205)})}), {}, 100) == {}, "all of it has expired"


@given(
    st.dictionaries(
        st.integers(0, 3), st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda two: (min(two), max(two)))
    ),
    st.dictionaries(st.integers(0, 3), st.integers(0, 60)),
    st.integers(1, 30),
)
def test_every_record_is_read_once(bounds: dict[int, tuple[int, int]], read: dict[int, int], most: int) -> None:
    done: dict[str, dict[int, int]] = {"t": read}
    places: list[tuple[int, int]] = []
    now = {"t": TopicNow("1", bounds)}
    while ranges := to_read(now, done, most):
        places += [(number, at) for number, (start, end) in ranges["t"].items() for at in range(start, end)]
        done = {topic: dict(places) for topic, places in positions(done, ranges).items()}

    assert sorted(places) == sorted(
        (number, at) for number, (first, end) in bounds.items() for at in range(max(first, read.get(number, 0)), end)
    )
