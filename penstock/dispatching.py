"""The parts of `agents` that `penstock.testing` runs on, in one place."""

from __future__ import annotations

from penstock.own_packages import own_packages

with own_packages():
    from agents.config import DeliveryConfig
    from agents.dispatch.context import DeliveryContext
    from agents.dispatch.dispatcher import Dispatcher
    from agents.http.connector import SendError
    from agents.http.egress_guard import EgressGuard
    from agents.http.pool import PoolConfig
    from agents.listeners.base import DeliveryListener, Hooks
    from agents.offsets.offset_tracker import OffsetTracker
    from agents.offsets.partition import Delivery, PartitionState

__all__ = [
    "Delivery",
    "DeliveryConfig",
    "DeliveryContext",
    "DeliveryListener",
    "Dispatcher",
    "EgressGuard",
    "Hooks",
    "OffsetTracker",
    "PartitionState",
    "PoolConfig",
    "SendError",
]
