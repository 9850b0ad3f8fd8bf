"""Resolves the name of a channel, broker, subscription or trigger."""

from __future__ import annotations

from app.operations.contract_snapshot import choose_channel, read_contract
from app.settings import load_settings

#: A kind in lower case, as users may write it -> its proper spelling.
KINDS = {
    "kafkachannel": "KafkaChannel",
    "channel": "KafkaChannel",
    "subscription": "Subscription",
    "broker": "Broker",
    "trigger": "Trigger",
}


def topic_of(channel: str, client: dict[str, str], *, dead_letters: bool) -> str:
    """Returns the topic of a channel or broker, from the contract. Raises PenstockError if it is not there."""
    record = choose_channel(read_contract(client, load_settings().instance), channel)
    return record.dlq_topic if dead_letters else record.topic
