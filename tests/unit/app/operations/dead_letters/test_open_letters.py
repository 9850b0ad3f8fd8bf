"""Letters by subscription: new ones are added, those that retention removed come off, a new topic is read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.operations.dead_letters.open_letters import Letters

PLACE = ("t.dlq", 0)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.sampled_from(["ns/a", "ns/b", ""]), max_size=5)),
        st.tuples(st.just("expire"), st.integers(0, 6)),
        st.tuples(st.just("again"), st.integers(0, 2)),
    ),
    max_size=20,
)


def _read(letters: Letters, log: list[str], start: int) -> None:
    """A round that reads all there is to read; `log`: whose letter is at each offset."""
    for place, offset in letters.bounds({PLACE: (start, len(log))}).items():
        for number in range(offset, len(log)):
            letters.add(place, number, log[number])


def _counted(log: list[str], start: int) -> dict[str, int]:
    return {name: log[start:].count(name) for name in set(log[start:])}


@given(_STEPS)
def test_open_letters_are_those_of_a_count_of_the_whole_topic(steps: list[tuple[str, list[str] | int]]) -> None:
    letters, log, start = Letters(), list[str](), 0
    for what, how in steps:
        if isinstance(how, list):
            log += how
        elif what == "expire":
            start = min(start + how, len(log))
        else:  # shorter than before: a topic made again that is as long already looks the same
            log, start = log[: min(how, max(len(log) - 1, 0))], 0
            letters = letters if log else Letters()
        _read(letters, log, start)
        assert letters.sizes() == _counted(log, start)
        assert len(letters) == len(log) - start


def test_offsets_without_a_letter_do_not_count() -> None:
    """Markers of transactions, and what a round did not reach."""
    letters = Letters()
    assert letters.bounds({PLACE: (5, 9), ("t.dlq", 1): (3, 3)}) == {PLACE: 5}
    letters.add(PLACE, 6, "ns/a")
    assert letters.bounds({PLACE: (5, 9)}) == {PLACE: 7}
    letters.reached(PLACE, 9)
    assert letters.bounds({PLACE: (7, 9)}) == {}
    assert letters.sizes() == {}


def test_topic_that_is_gone_is_forgotten() -> None:
    letters = Letters()
    _read(letters, ["ns/a"], 0)
    assert letters.bounds({}) == {}
    assert (letters.sizes(), len(letters)) == ({}, 0)
    _read(letters, ["ns/b", "ns/b"], 0)
    assert letters.sizes() == {"ns/b": 2}
