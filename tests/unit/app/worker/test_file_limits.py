"""The limit of open files: raised to what is needed and allowed, with a warning when that is too low."""

from __future__ import annotations

import resource

import pytest

from app.settings.load import Settings
from app.worker import file_limits

ENDLESS = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "needed", "set_to"),
    [
        (1024, 524_288, 19_096, 19_096),
        (1024, 4096, 19_096, 4096),
        (1024, ENDLESS, 19_096, 19_096),
        (65_536, 524_288, 19_096, 65_536),
        (ENDLESS, ENDLESS, 19_096, ENDLESS),
        (1024, 1024, 19_096, 1024),
    ],
)
def test_soft_limit_is_raised_as_far_as_it_goes(soft: int, hard: int, needed: int, set_to: int) -> None:
    assert file_limits.raised(soft, hard, needed) == set_to


def test_low_limit_is_logged_with_a_hint() -> None:
    assert file_limits.shortage(15_200, 15_000) is file_limits.shortage(ENDLESS, 15_000) is None
    reported = file_limits.shortage(1024, 15_000) or ""
    assert "1024" in reported
    assert "PENSTOCK_CONNECTIONS_MAX=15000" in reported
    assert "ulimit -Hn" in reported


def test_there_are_more_connections_than_requests_that_may_wait() -> None:
    """Else a connection is refused with 503 before the 429 is ever reached: one that waits has one request."""
    settings = Settings()
    assert settings.connections_max > settings.ingress_inflight_max
