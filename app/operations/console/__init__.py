"""The console of a worker, put together. Imported when somebody looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.operations.console.acts import ConsoleActs
from app.operations.console.reads import ConsoleReads
from app.settings.load import Settings
from app.worker.parts import Parts
from knative.contract import kafka_names
from tables.traffic_windows.view import TrafficRows
from web.console.safety import Mode
from web.console.server import Console, ConsoleConfig
from web.console.sessions import Sessions


def console(settings: Settings, mode: Mode, parts: Parts, kafka: Mapping[str, Any], sessions: Sessions) -> Console:
    """Returns the console of these parts. `sessions` has its tokens."""

    def make_rows() -> TrafficRows:
        topic = kafka_names.windows_changelog_topic(settings.instance)
        return TrafficRows(topic, kafka, settings.traffic_10s_keep_s, settings.traffic_1m_keep_s)

    reads = ConsoleReads(
        settings.instance,
        parts.contract,
        parts.status,
        None if parts.traffic is None else parts.traffic.rows,
        make_rows if settings.traffic else None,
        kafka,
        lambda: parts.producer.connected,
        parts.worker_id,
    )
    config = ConsoleConfig(
        mode,
        settings.instance,
        settings.admin_port,
        has_tokens=bool(settings.console_tokens),
        secure=bool(settings.tls_cert),
        bodies=settings.console_bodies,
    )
    acts = ConsoleActs(settings, parts.contract, parts.status, parts.producer, kafka, config.limits)
    reads.at_rest = acts.rest
    return Console(config, reads, sessions, acts)
