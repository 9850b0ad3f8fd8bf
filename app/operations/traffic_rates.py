"""Measures rates and lag from offsets in Kafka, without reading records. `analytics/traffic/offsets` has the formulas.

Kafka can look up the offset of any past time, so arrivals have a history. Commits have none, so deliveries are the
difference of two measurements, SAMPLE_S apart. Joins no group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from analytics.traffic.offsets import Rate, difference
from app.operations.contract_snapshot import choose_channel, read_contract
from app.operations.group_offsets import read_group_offsets
from app.operations.lag import GroupOffset, events_behind
from app.settings import load_settings
from knative.contract.records import Channel, Subscription
from knative.errors import NotReadyError
from tables.kafka.admin.answers import TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.timing import ANSWER_S

SAMPLE_S = 5.0
SINCE_S = 300.0  #: default length of the span, in seconds before its end


def measure(
    client: Mapping[str, Any],
    channels: Sequence[str] = (),
    since_s: float | None = None,
    until_s: float | None = None,
    sample_s: float = SAMPLE_S,
) -> list[Rate]:
    """Returns arrivals of channels between two times, deliveries and lag of subscriptions now. Raises NotReadyError."""
    contract = read_contract(client, load_settings().instance)
    chosen = [choose_channel(contract, wish) for wish in channels] or list(contract.channels)
    uids = {channel.uid for channel in chosen}
    subscriptions = [subscription for subscription in contract.subscriptions if subscription.channel_uid in uids]
    now_s = time.time()
    span = (since_s if since_s is not None else (until_s or now_s) - SINCE_S, min(until_s or now_s, now_s))
    first, first_s = read_group_offsets(client, subscriptions), time.time()
    rates = [_arrivals(client, channel, span) for channel in chosen]
    if subscriptions:
        time.sleep(max(0.0, sample_s - (time.time() - first_s)))
        second, second_s = read_group_offsets(client, subscriptions), time.time()
        rates += [_deliveries(subscription, first, second, first_s, second_s) for subscription in subscriptions]
    return rates


def _arrivals(client: Mapping[str, Any], channel: Channel, span: tuple[float, float]) -> Rate:
    admin = KafkaAdmin(client, ANSWER_S)
    partitions = [(channel.topic, number) for number in range(channel.partitions)]
    try:
        since, until = (_by_partition(admin.offsets_at(partitions, int(moment * 1000))) for moment in span)
        ends = _by_partition(admin.end_offsets(partitions))
    except KafkaFailed as problem:
        raise NotReadyError(
            f"Kafka at {admin.bootstrap} did not return offsets of {channel.topic} ({problem.why}).",
            "See `penstock status` for channels and their topics, and try again.",
        ) from problem
    return Rate("arrived", channel.label, "", *span, difference(since, until, ends))


def _by_partition(offsets: Mapping[TopicAndPartition, int]) -> dict[int, int]:
    return {number: offset for (_, number), offset in offsets.items()}


def _deliveries(
    subscription: Subscription,
    first: Sequence[GroupOffset],
    second: Sequence[GroupOffset],
    first_s: float,
    second_s: float,
) -> Rate:
    mine = [offset for offset in second if offset.group == subscription.group]
    ends = {offset.partition: offset.end for offset in mine}
    before = {
        offset.partition: offset.committed or offset.start for offset in first if offset.group == subscription.group
    }
    after = {offset.partition: offset.committed or offset.start for offset in mine}
    behind = sum(events_behind(offset) for offset in mine)
    owner = f"{subscription.namespace}/{subscription.channel}"
    return Rate("settled", owner, subscription.name, first_s, second_s, difference(before, after, ends), behind)
