"""The librdkafka settings of a subscription's consumer, without its callbacks."""

from __future__ import annotations

from typing import Any

from agents.config import DeliveryConfig
from agents.reader.membership import CONNECT_MAX_S, HEARTBEAT_MAX_S, RECONNECT_MAX_S


def consumer_settings(config: DeliveryConfig, group: str, client_name: str, instance_id: str | None) -> dict[str, Any]:
    """Returns librdkafka's names and values. Those of the connection come last and win.

    `instance_id`: the static member name of this consumer and of those that replace it. With it, a member whose
    heartbeats were missing for a while gets its partitions back as soon as it rejoins. Without it, the group waits for
    the old session to end, and may give the partitions to others.
    """
    classic = {
        "group.instance.id": instance_id,
        "session.timeout.ms": int(config.session_timeout_s * 1000),
        "heartbeat.interval.ms": round(min(config.session_timeout_s * 0.15, HEARTBEAT_MAX_S) * 1000),
        "partition.assignment.strategy": "cooperative-sticky",
    }
    return {
        "group.id": group,
        "max.poll.interval.ms": int(config.max_poll_interval_s * 1000),
        "client.id": client_name,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,  # if a log ends in offsets without records, only this says that all was read
        "fetch.wait.max.ms": 200,
        "queued.max.messages.kbytes": max(64, config.fetch_bytes // 1024),
        "fetch.queue.backoff.ms": 10,  # by default a full queue stops fetching for a whole second
        "fetch.message.max.bytes": max(65_536, config.fetch_bytes // 8),  # per partition
        "fetch.max.bytes": max(config.fetch_bytes, config.event_bytes_max + 524_288),
        "message.max.bytes": config.event_bytes_max + 524_288,
        "topic.metadata.refresh.interval.ms": 20_000,  # added partitions have an offset within 30 s
        "reconnect.backoff.max.ms": round(RECONNECT_MAX_S * 1000),
        "socket.connection.setup.timeout.ms": round(CONNECT_MAX_S * 1000),
        "group.protocol": config.group_protocol,
        **(classic if config.group_protocol == "classic" else {}),
        **config.client,
        **config.kafka,
    }
