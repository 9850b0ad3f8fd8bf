"""What a process has that delivers. Imported only there: `agents` takes a tenth of a worker's memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.config import DeliveryConfig
from agents.dispatch.context import DeliveryContext
from agents.http.own_ingress import OwnIngress
from agents.http.pool import PoolConfig
from agents.ordering.turns import Turns
from agents.supervisor import Supervisor
from app.settings.load import Settings
from app.worker.egress import guard_of
from app.worker.lifecycle import Lifecycle
from app.worker.parts import Parts
from app.worker.secrets.own_token import own_ingress
from app.worker.system_clock import SystemClock
from knative.traffic.counters import TrafficCounters
from tables.status_table import reported_offsets


def deliver(
    app: Any, parts: Parts, kafka: Mapping[str, Any], lifecycle: Lifecycle, counters: TrafficCounters | None
) -> None:
    """Give the worker its supervisor. `app`: the Faust app; `counters` None: traffic is not counted. Raises UsageError
    for a token that cannot be read."""
    settings, status = parts.settings, parts.status
    config = DeliveryConfig(
        kafka=kafka,
        instance=settings.instance,
        buffer_bytes_max=settings.buffer_bytes_max,
        fetch_bytes=settings.fetch_bytes,
        event_bytes_max=settings.event_bytes_max,
        commit_interval_s=settings.commit_interval_s,
        commit_timeout_s=settings.commit_timeout_s,
        session_timeout_s=settings.session_timeout_s,
        group_protocol=settings.group_protocol,
        revoke_drain_s=settings.revoke_drain_s,
        drain_s=settings.drain_s,
        retry_delay_cap_s=settings.retry_delay_cap_s,
        retry_after_cap_s=settings.retry_after_cap_s,
        reply_depth_max=settings.reply_depth_max,
        log_deliveries=settings.log_level == "debug",
    )
    context = DeliveryContext(
        config=config,
        pool_config=PoolConfig(reply_bytes_max=settings.event_bytes_max),
        guard=guard_of(settings),
        produce=parts.producer,
        observe=parts.metrics,
        clock=SystemClock(),
        fatal=lifecycle.crashed,
        gone=lifecycle.memory.gone,
        changed=lifecycle.status_changed,
        own_ingress=_own_ingress(settings, lifecycle),
        turns=Turns(lifecycle.crashed),
        trace=None if parts.spans is None else parts.spans.tracing,
        counters=counters,
        reported=lambda subscription: reported_offsets(subscription, status.workers.values()),
    )
    parts.contract.on_change(lambda: context.own_addresses.use(parts.contract.channels.values()))
    parts.supervisor = Supervisor(app, parts.contract, context, parts.secrets)
    parts.metrics.watch(parts.supervisor.snapshots)


def _own_ingress(settings: Settings, lifecycle: Lifecycle) -> OwnIngress | None:
    pair = own_ingress(settings)
    if pair is None:
        return None
    own, watch = pair
    lifecycle.watches.append(watch)
    return own
