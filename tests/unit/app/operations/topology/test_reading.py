"""What the map says of a subscription's last error."""

from __future__ import annotations

import pytest

from app.operations.topology.reading import error_text
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
