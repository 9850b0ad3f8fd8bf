"""The vertex ids of channels and brokers."""

from __future__ import annotations

from knative.contract.records import BROKER, Channel


def is_broker(channel: Channel) -> bool:
    """A Broker owns a topic as a channel does; in the contract they differ by kind."""
    return channel.kind == BROKER


def channel_id(channel: Channel) -> str:
    """Returns the vertex id of a channel or broker."""
    return f"{'broker' if is_broker(channel) else 'channel'}:{channel.namespace}/{channel.name}"
