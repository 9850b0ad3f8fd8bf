"""Events that are both stored and accepted count once, even when a reader has one day at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from analytics.traffic.read import read_sums
from analytics.traffic.windows import DAY_S, Window, counted_once, merge, table_of, windows_of
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_tables

HOUR = 1_790_000_000 // 3600 * 3600


def sample(start: int = HOUR) -> Window:
    return Window(start, 60, "stored", "ns", "a", counts=Counts(1))


def test_what_came_in_is_counted_on_one_way() -> None:
    """In each minute of a channel: where records were read, they count, and what ingress reported elsewhere."""
    read, settled = sample(), Window(HOUR, 60, "settled", "ns", "a", "s")
    [reported, later, other] = [
        Window(start, 60, "accepted", "ns", channel, counts=Counts(1), latency={1: 1})
        for start, channel in ((HOUR, "a"), (HOUR + 60, "a"), (HOUR, "b"))
    ]

    assert windows_of(counted_once(table_of([read, reported, later, other, settled]))) == [read, later, other, settled]
    assert counted_once(table_of([])).num_rows == 0


Place = tuple[str, int]  #: a channel and the start of a window


def came(stored: Mapping[Place, int], accepted: Mapping[Place, int]) -> pa.Table:
    return table_of(
        [
            Window(start, 60, kind, "ns", channel, type=str(number % 3), counts=Counts(number))
            for kind, numbers in (("stored", stored), ("accepted", accepted))
            for (channel, start), number in numbers.items()
            if number
        ]
    )


@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.sampled_from([0, 0, 1])), max_size=20),
    early=st.booleans(),
)
def test_event_counts_once_wherever_it_was_accepted(events: list[tuple[str, int, int]], early: bool) -> None:
    """Each is stored in one minute and accepted in the same one, or the next. Or a lone one, the minute before."""
    stored = Counter((channel, HOUR + 60 * minute) for channel, minute, _ in events)
    accepted = Counter((channel, HOUR + 60 * (minute + late)) for channel, minute, late in events)
    if early:
        stored["c", HOUR], accepted["c", HOUR - 60] = 1, 1

    counted = windows_of(counted_once(came(stored, accepted)))

    assert sum(window.counts.events for window in counted) == len(events) + early
    assert all(window.kind == "stored" for window in counted)


def test_what_is_stored_no_more_counts_as_it_was_accepted() -> None:
    """The records of a channel are gone from the middle of a minute on, such as with their topic."""
    counted = windows_of(
        counted_once(came({("a", HOUR): 5}, {("a", HOUR): 9, ("a", HOUR + 60): 5, ("a", HOUR + 120): 1}))
    )
    assert [(window.start, window.counts.events) for window in counted] == [(HOUR, 5), (HOUR + 60, 5), (HOUR + 120, 1)]


def test_event_at_midnight_is_counted_once(tmp_path: Path) -> None:
    midnight = HOUR // DAY_S * DAY_S
    accepted = Window(midnight, 60, "accepted", "ns", "a", counts=Counts(1))
    write_tables(tmp_path, [sample(midnight - 60), accepted, sample(midnight + 3600)])

    assert sum(window.counts.events for window in read_sums(tmp_path, 60, midnight - 60, midnight + 7200)[0]) == 2


MIDNIGHT = HOUR // DAY_S * DAY_S
around_midnights = st.dictionaries(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from([MIDNIGHT + 60 * n for n in (-2, -1, 0, 1, 1438, 1439, 1440, 1441)])
    ),
    st.integers(0, 2),
)


@given(stored=around_midnights, accepted=around_midnights)
@example({("a", MIDNIGHT - 120): 1, ("a", MIDNIGHT - 60): 1}, {("a", MIDNIGHT - 60): 1, ("a", MIDNIGHT): 1})
@example({("a", MIDNIGHT): 1}, {("a", MIDNIGHT - 60): 1})
def test_days_count_as_they_do_together(stored: Mapping[Place, int], accepted: Mapping[Place, int]) -> None:
    """A reader has one day at a time. Events may be late at the end of one, for minutes, or early."""
    together = came(stored, accepted)
    with TemporaryDirectory() as folder:
        write_tables(Path(folder), windows_of(together))
        assert read_sums(folder, 60, over=())[0] == windows_of(merge(counted_once(together)))
