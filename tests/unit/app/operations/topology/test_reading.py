"""What the map says of a subscription's last error, and which source of traffic it uses."""

from __future__ import annotations

from typing import Any

import pytest

from analytics.topology.model.document import Tier, Window
from app.operations.topology.reading import Counted, NoTrafficError, TopologyQuery, error_text, traffic_of
from knative.contract.subscription_stats import LastError


@pytest.mark.parametrize(
    ("code", "reason", "reported"),
    [
        (400, "the answer was 400", "http://s/ answered 400"),
        (200, "the answer was 200 with an event: x", "http://s/ answered 200 with an event: x"),
        (500, "timeout: no answer within 5 s", "http://s/: timeout: no answer within 5 s"),
    ],
)
def test_a_status_code_is_shown_once_and_only_for_an_answer(code: int, reason: str, reported: str) -> None:
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
    assert any("The statuses of workers are of now" in note for note in counted.notes) == (until_ago_s > 0)
