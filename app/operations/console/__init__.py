"""The console of a worker, put together. Imported only where it is on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.operations.console.acts import ConsoleActs
from app.operations.console.reads import ConsoleReads
from app.settings.load import Settings
from app.worker.parts import Parts
from app.worker.secrets.file_watch import FileWatch
from app.worker.secrets.token_file import read_names
from knative.contract import kafka_names
from tables.traffic_windows.view import TrafficRows
from web.console.safety import Mode
from web.console.server import Console, ConsoleConfig
from web.console.sessions import Sessions


def console(
    settings: Settings, mode: Mode, parts: Parts, kafka: Mapping[str, Any], watches: list[FileWatch[Any]]
) -> Console:
    """The console of these parts. Adds to `watches` the file of its tokens, if it has one. Raises UsageError when that
    is not valid."""

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
    sessions = Sessions(config.limits)
    if settings.console_tokens:
        path = Path(settings.console_tokens.removeprefix("file:"))

        def use(names: Mapping[bytes, str]) -> None:
            sessions.names = names

        watches.append(FileWatch("PENSTOCK_CONSOLE_TOKENS", [path], lambda: read_names(path), use))
    acts = ConsoleActs(settings, parts.contract, parts.status, parts.producer, kafka, config.limits)
    reads.at_rest = acts.rest
    return Console(config, reads, sessions, acts)
