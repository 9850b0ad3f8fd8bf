"""What the librdkafka consumer of a subscription is told. Refuses to hold callbacks: they belong to the feed."""

from __future__ import annotations

from typing import Any

from agents.config import DeliveryConfig


def consumer_settings(config: DeliveryConfig, group: str, client_name: str, instance_id: str) -> dict[str, Any]:
    """librdkafka's names and values; what the user set for Kafka comes last and wins.

    `instance_id`: a name that this consumer and those that replace it have for themselves. With it (static membership)
    a member that Kafka did not hear of for a while has its partitions again as soon as it joins; without it, the group
    waits for the session of its former self to end, and may give its partitions to others.
    """
    classic = {
        "group.instance.id": instance_id,
        "session.timeout.ms": int(config.session_timeout_s * 1000),
        "heartbeat.interval.ms": max(500, int(config.session_timeout_s * 150)),
        "partition.assignment.strategy": "cooperative-sticky",
    }
    return {
        "group.id": group,
        "max.poll.interval.ms": int(config.max_poll_interval_s * 1000),
        "client.id": client_name,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,  # where a log ends in what is no record, nothing else says that all was read
        "fetch.wait.max.ms": 200,
        "queued.max.messages.kbytes": max(64, config.fetch_bytes // 1024),
        "fetch.queue.backoff.ms": 10,  # by default a full queue stops fetching for a whole second
        "fetch.message.max.bytes": max(65_536, config.fetch_bytes // 8),  # of one partition at a time
        "fetch.max.bytes": max(config.fetch_bytes, config.event_bytes_max + 524_288),
        "message.max.bytes": config.event_bytes_max + 524_288,
        "topic.metadata.refresh.interval.ms": 30_000,
        "reconnect.backoff.max.ms": 2_000,
        "group.protocol": config.group_protocol,
        **(classic if config.group_protocol == "classic" else {}),
        **config.client,
        **config.kafka,
    }
