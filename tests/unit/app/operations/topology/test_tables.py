"""Tables of the traffic job, summed for the topology."""

from __future__ import annotations

from pathlib import Path

from analytics.topology.model.document import Window as Span
from analytics.traffic.windows import ACCEPTED, HOUR_S, MINUTE_S, SETTLED, STORED, Window
from app.operations.topology.tables import read_tables
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_tables

BEGIN = 400_000 * HOUR_S


def test_what_came_is_summed_by_source_and_by_type(tmp_path: Path) -> None:
    """Each event counts once, even where a channel has it as stored and as accepted."""
    write_tables(
        tmp_path,
        [
            Window(BEGIN, MINUTE_S, STORED, "n", "c", "", "paid", "/a", Counts(3, 30)),
            Window(BEGIN + MINUTE_S, MINUTE_S, STORED, "n", "c", "", "paid", "/b", Counts(1, 10)),
            Window(BEGIN, MINUTE_S, STORED, "n", "c", "", "made", "/a", Counts(2, 20)),
            Window(BEGIN, MINUTE_S, ACCEPTED, "n", "c", "", "paid", "/a", Counts(3, 30)),
            Window(BEGIN, MINUTE_S, SETTLED, "n", "c", "s", "paid", "/a", Counts(3, 30, 3)),
            Window(BEGIN, MINUTE_S, SETTLED, "n", "c", "s", "made", "/a", Counts(2, 20, 0, 0, 0, 2)),
        ],
    )

    (traffic, arrivals), span = read_tables(tmp_path, BEGIN, BEGIN + 600)

    assert list(arrivals.rows()) == [
        ("/a", ("n", "c", "made"), 2, 20),
        ("/a", ("n", "c", "paid"), 3, 30),
        ("/b", ("n", "c", "paid"), 1, 10),
    ]
    assert [(rate.subscription, rate.counts) for rate in traffic] == [
        ("s", Counts(5, 50, 3, 0, 0, 2)),
        ("", Counts(6, 60)),
    ]
    assert span == Span(BEGIN, BEGIN + 2 * MINUTE_S)
