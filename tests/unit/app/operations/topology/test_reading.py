"""What the map says of a subscription's last error, and which source of traffic it uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analytics.topology.model.document import Tier, Window
from analytics.traffic.windows import HOUR_S, MINUTE_S
from analytics.traffic.windows import Window as Row
from app.operations.topology.reading import (
    Counted,
    NoTrafficError,
    TopologyQuery,
    error_text,
    traffic_of,
    window_of_deltas,
    windows_of_tables,
)
from knative.contract.subscription_stats import LastError
from knative.shown import moment
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_tables


@pytest.mark.parametrize(
    ("code", "reason", "reported"),
    [
        (400, "the answer was 400", "http://s/ answered 400"),
        (200, "the answer was 200 with an event: x", "http://s/ answered 200 with an event: x"),
        (500, "timeout: no answer within 5 s", "http://s/: timeout: no answer within 5 s"),
    ],
)
def test_status_code_is_shown_once_and_only_for_an_answer(code: int, reason: str, reported: str) -> None:
    assert error_text(LastError(0.0, code, reason, destination="http://s/")) == reported


NOW_S = 1_790_000_000.0


def query(until_ago_s: float = 0.0, tier: Tier | None = None, **changes: Any) -> TopologyQuery:
    until = NOW_S - until_ago_s
    return TopologyQuery({}, "i", NOW_S, until - 600, until, tier=tier, **changes)


def no_traffic(query: TopologyQuery, workers: int) -> Counted:
    raise NoTrafficError("There is no traffic.")


@pytest.mark.parametrize(
    ("until_ago_s", "wish", "tier", "window"),
    [
        (0, None, Tier.STATUS, Window(NOW_S - 60, NOW_S)),
        (0, Tier.NONE, Tier.NONE, Window()),
        (86_400, None, Tier.NONE, Window()),
        (86_400, Tier.STATUS, Tier.NONE, Window()),
    ],
)
def test_rates_of_now_are_not_those_of_a_window_that_ended_before(
    until_ago_s: float, wish: Tier | None, tier: Tier, window: Window
) -> None:
    counted, used = traffic_of(query(until_ago_s, wish), 1, no_traffic, no_traffic)

    assert (used, counted.window) == (tier, window)
    assert any("The statuses of workers are current" in note for note in counted.notes) == (until_ago_s > 0)


@pytest.mark.parametrize(
    ("until_ago_s", "workers", "older", "reason"),
    [
        (0, 1, False, None),
        (86_400, 1, True, None),
        (86_400, 1, False, "no worker wrote to it before"),
        (86_400, 0, True, "no worker runs"),
        (0, 0, False, "no worker runs"),
    ],
)
def test_no_records_mean_no_traffic_only_if_there_would_be_some(
    until_ago_s: float, workers: int, older: bool, reason: str | None
) -> None:
    """Kafka keeps records for some days only."""
    asked = query(until_ago_s)
    if reason is None:
        assert window_of_deltas(asked, workers, None, older) == Window(asked.since, asked.until)
        return
    with pytest.raises(NoTrafficError, match=rf"The topic i.traffic has no record in the window, and {reason}\."):
        window_of_deltas(asked, workers, None, older)


HOUR = int(NOW_S) // HOUR_S * HOUR_S


def rows(*starts: int, size: int = MINUTE_S) -> list[Row]:
    """Ten accepted events in each of these windows."""
    return [Row(start, size, "accepted", "n", "c", "", "t", "/a", Counts(10, 100)) for start in starts]


def of_tables(folder: Path, windows: list[Row], newest: int, since: float, until: float) -> Window:
    write_tables(folder, windows, newest={"penstock.traffic": newest})
    return windows_of_tables(TopologyQuery({}, "i", until, since, until, folder=folder), 1).window


def test_tables_reach_to_their_newest_record(tmp_path: Path) -> None:
    """An hour that was counted for its first minute only does not end at the full hour."""
    hours = rows(HOUR - 7 * HOUR_S, HOUR - HOUR_S, HOUR, size=HOUR_S)

    window = of_tables(tmp_path / "a", hours, HOUR + 3000, HOUR - 7 * HOUR_S, HOUR + 3200)
    assert window == Window(HOUR - 7 * HOUR_S, HOUR + 3001)
    with pytest.raises(NoTrafficError, match=f"the end of the window: they end at {moment(HOUR + 60)}"):
        of_tables(tmp_path / "b", hours, HOUR + 59, HOUR - 7 * HOUR_S, HOUR + 3200)


def test_tables_reach_to_the_end_of_a_window_that_ends_in_quiet_time(tmp_path: Path) -> None:
    begin = HOUR - 600
    assert of_tables(tmp_path, rows(begin), HOUR + 3000, begin, HOUR) == Window(begin, HOUR)


@pytest.mark.parametrize(
    ("older", "start"),
    [
        ([], HOUR - 60),
        ([HOUR - 600], HOUR - 600),
        ([HOUR - 660], HOUR - 600),
        ([HOUR - 5 * 86_400], HOUR - 600),
    ],
)
def test_quiet_time_belongs_to_the_window_of_tables_that_have_older_rows(
    tmp_path: Path, older: list[int], start: int
) -> None:
    """Ten minutes with events in the last one only. Without older rows, it is not known when counting began."""
    assert of_tables(tmp_path, rows(*older, HOUR - 60), HOUR, HOUR - 570, HOUR) == Window(start, HOUR)


def test_tables_know_that_nothing_came(tmp_path: Path) -> None:
    written = rows(HOUR - 7200, HOUR + 3000)
    assert of_tables(tmp_path, written, HOUR + 3001, HOUR - 600, HOUR) == Window(HOUR - 600, HOUR)
