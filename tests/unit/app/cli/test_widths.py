"""What the first commands of a newcomer print fits a terminal of 80 columns."""

from __future__ import annotations

import pytest

from app.cli.output.format import Listing, View
from app.cli.status import _CHANNELS, _SUBSCRIPTIONS

_CHANNEL, _SUBSCRIBER = "default/quickstart", "http://127.0.0.1:65535/picky"


@pytest.mark.parametrize(
    ("listing", "row"),
    [
        (_CHANNELS, {"channel": _CHANNEL, "topic": f"knative-messaging-kafka.{_CHANNEL}", "partitions": 4}),
        (
            _SUBSCRIPTIONS,
            {"subscription": "default/picky", "channel": "quickstart", "subscriber": _SUBSCRIBER, "lag": 1},
        ),
    ],
    ids=["channels", "subscriptions"],
)
def test_tables_of_the_example(capsys: pytest.CaptureFixture[str], listing: Listing, row: dict[str, object]) -> None:
    listing.show([{**row, "ready": "Unknown"}], View.TABLE)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
