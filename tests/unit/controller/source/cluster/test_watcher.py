"""When a watch is given up and everything is listed again."""

from __future__ import annotations

import pytest

from controller.kube.errors import StreamCut
from controller.source.cluster.watcher import CUTS_MAX, QUICK_S, StreamEnd, count_cuts, must_list
from controller.timing import WATCH_S

CUT = StreamCut("watch", "reset")

#: How a stream ended, and how many in a row were cut before their first event if there were two of these before it.
ROWS = {
    "as the server ends it, with an event": (StreamEnd(1, WATCH_S), 0),
    "as the server ends it, without one": (StreamEnd(0, WATCH_S), 0),
    "an event, then at its end": (StreamEnd(1, 0.0), 0),
    "an event, then cut": (StreamEnd(1, 0.0, CUT), 0),
    "cut before an event, at once": (StreamEnd(0, 0.0, CUT), 3),
    "cut before an event, late": (StreamEnd(0, WATCH_S, CUT), 3),
    "at its end at once": (StreamEnd(0, QUICK_S / 2), 3),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_streams_cut_before_their_first_event_are_counted(row: tuple[StreamEnd, int]) -> None:
    end, cuts = row
    assert count_cuts(2, end) == cuts


def test_everything_is_listed_after_so_many_cuts_and_after_as_many_more() -> None:
    assert [cuts for cuts in range(3 * CUTS_MAX) if must_list(cuts)] == [CUTS_MAX, 2 * CUTS_MAX]
