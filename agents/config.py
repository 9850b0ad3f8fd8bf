"""Settings of the data plane's delivery side. Sizes are in bytes, times in seconds; `app/` fills them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BROKER_SESSION_S = 45.0  #: Kafka's default; in the protocol `consumer` the brokers decide


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """Limits and waits that apply to every subscription in this process."""

    kafka: Mapping[str, Any]  #: librdkafka client settings, `bootstrap.servers` among them
    instance: str = "penstock"  #: first part of client names
    buffer_bytes_max: int = 4 * 1_048_576  #: records held by one subscription, in addition to the client's own queue
    fetch_bytes: int = 1_048_576  #: the client's queue of one topic
    event_bytes_max: int = 1_048_576
    commit_interval_s: float = 0.5
    commit_timeout_s: float = 2.0  #: new events wait when Kafka confirms no commit for this long
    session_timeout_s: float = 8.0
    group_protocol: str = "classic"  #: or "consumer" (KIP-848)
    revoke_drain_s: float = 3.0
    drain_s: float = 20.0
    retry_delay_cap_s: float = 600.0
    retry_after_cap_s: float = 600.0
    reply_depth_max: int = 64  #: how many replies of Triggers and deliveries to own addresses may lead to an event
    log_deliveries: bool = False  #: one line at debug for each delivery that succeeds at once
    client: Mapping[str, Any] = field(default_factory=dict)  #: further librdkafka consumer settings

    @property
    def expelled_after_s(self) -> float:
        """Kafka gives the partitions of a silent member to nobody else before this. A lower bound: in the protocol
        `consumer` the brokers decide."""
        if self.group_protocol == "classic":
            return self.session_timeout_s
        return min(self.session_timeout_s, BROKER_SESSION_S)

    @property
    def max_poll_interval_s(self) -> float:
        """A consumer that does not poll for this long has failed, for Kafka and `/healthz`. Longer than any drain."""
        return max(300.0, max(self.drain_s, self.revoke_drain_s) + 60.0)

    @property
    def join_limit_s(self) -> float:
        """A client that has not joined its group after that is replaced. Longer than the others need to drain, and than
        a session lasts."""
        return max(60.0, max(self.drain_s, self.revoke_drain_s) + 30.0)
