"""librdkafka's settings of a consumer, and what others count on them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agents.config import DeliveryConfig
from agents.reader.membership import HANDOVER_S
from agents.reader.settings import consumer_settings

#: When a system sends the packet that opens a connection, as long as nobody answers.
_SYNS_S = (0, 1, 3, 7, 15, 31)


@pytest.mark.parametrize("session_timeout_s", [6.0, 8.0, 30.0, 300.0])
def test_client_reaches_a_kafka_that_was_frozen_in_the_time_for_hand_overs(session_timeout_s: float) -> None:
    settings = consumer_settings(DeliveryConfig({}, session_timeout_s=session_timeout_s), "g", "c", "i")
    heartbeat_s = settings["heartbeat.interval.ms"] / 1000
    given_up_s = settings.get("socket.connection.setup.timeout.ms", 30_000) / 1000  # librdkafka's default
    sent_s = [at for at in _SYNS_S if at < given_up_s]
    again_s = given_up_s + settings["reconnect.backoff.max.ms"] / 1000
    connects_s = max(later - earlier for earlier, later in pairwise([*sent_s, again_s]))
    assert connects_s <= HANDOVER_S
    assert heartbeat_s < session_timeout_s / 3, "a heartbeat may be lost"


@pytest.mark.parametrize(
    ("protocol", "session_timeout_s", "expelled_after_s"),
    [("classic", 8.0, 8.0), ("classic", 120.0, 120.0), ("consumer", 8.0, 8.0), ("consumer", 120.0, 45.0)],
)
def test_no_member_is_expelled_sooner(protocol: str, session_timeout_s: float, expelled_after_s: float) -> None:
    config = DeliveryConfig({}, session_timeout_s=session_timeout_s, group_protocol=protocol)
    assert config.expelled_after_s == expelled_after_s
