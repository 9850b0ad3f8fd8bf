"""Logs: one JSON object a line for machines, or words on a terminal; structlog and stdlib logging in one stream.

    structlog.get_logger(__name__).info("...", key=value) --+
                                                            +--> processors --> one line --> standard error
    faust, mode, aiokafka, confluent_kafka (stdlib) --------+

A line is timestamp (ISO 8601, UTC), level, event, logger, worker and the fields. A call below the level costs a no-op.
Fields whose names speak of secrets are masked, and tracebacks never show local variables. Refuses to write to standard
output: that belongs to what commands print as their result.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.config
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, Protocol, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from app.observability.log_rate_limit import Repeats

MASK = "********"
_SECRET_WORDS = ("password", "passwd", "secret", "token", "authorization", "credential", "private_key", "api_key")

#: These speak of their own insides at info: a level up, unless everything is wanted.
_LIBRARIES = ("faust", "mode", "aiokafka", "aiohttp.access", "asyncio")

#: These belong to the second Faust app alone, which may fail: `app/worker/traffic_windows_app` says so, once and in a
# sentence, while they
#: would say it several times a second and with tracebacks. Nothing of them, unless everything is wanted.
_SECOND_APP = ("aiokafka", "faust.assignor", "faust.tables", "faust.transport", "mode.threads", "mode.windows")


class LogSettings(Protocol):
    """The part of the settings that is needed here."""

    @property
    def log_level(self) -> str: ...
    @property
    def log_format(self) -> str: ...
    @property
    def worker_id(self) -> str: ...


class _Output:
    """Where lines go. Keeps the stream it was given: Faust replaces `sys.stderr` by a proxy into logging."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """One line, whole, whichever thread it comes from."""
        stream = self.stream or sys.__stderr__
        # A reader of logs that has gone away must not stop the delivery of events, and nobody is left to be told.
        with self._lock, contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.write(line + "\n")
                stream.flush()


# Loggers are cached at first use: what they hold is changed in place, so that setting up anew reaches all of them.
_output = _Output()
_processors: list[Processor] = []


class _LineLogger:
    """What structlog hands rendered lines to; knows its name, and how a stdlib logger spells its levels."""

    __slots__ = ("critical", "debug", "error", "exception", "info", "msg", "name", "warning")

    def __init__(self, name: str = "", *_: Any) -> None:
        self.name = name
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = _output.write


class _Handler(logging.Handler):
    """stdlib records into the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises: logging reports its own failures through `handleError`."""
        try:
            _output.write(self.format(record))
        except Exception:
            self.handleError(record)


def configure_logging(settings: LogSettings, worker: str = "", stream: TextIO | None = None) -> dict[str, Any]:
    """Set up structlog and stdlib logging; call it again as often as needed.

    Returns the dict for Faust's `logging_config`: Faust's worker configures the root logger anew when it starts, and
    with this dict it comes to the same. `worker` (else the `worker_id` setting) is put on every line.
    `stream` is standard error by default, the real one.
    """
    _output.stream = stream or sys.__stderr__
    terminal = _output.stream is not None and _output.stream.isatty()
    pretty = settings.log_format == "pretty" or (settings.log_format == "auto" and terminal)
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared = _pretty_processors() if pretty else _json_processors(worker or settings.worker_id)
    renderer = _console(terminal) if pretty else render_json
    _processors[:] = [_add_logger_name, *shared, renderer]
    structlog.configure(
        processors=_processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_LineLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_stdlib_config(level, shared, renderer))
    return _stdlib_config(level, shared, renderer)


def _json_processors(worker: str) -> list[Processor]:
    """What happens to every line before it is rendered as JSON, wherever it comes from."""

    def add_worker(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if worker:
            event["worker"] = worker
        return event

    timestamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [timestamp, add_worker, *_always()]


def _pretty_processors() -> list[Processor]:
    """The same for a person, who knows the worker and the day."""
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), *_always()]


def _always() -> list[Processor]:
    # format_exc_info writes the plain traceback: one with local variables would show secrets
    return [structlog.processors.add_log_level, structlog.processors.format_exc_info, mask_secrets]


def _add_logger_name(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["logger"] = getattr(logger, "name", "")
    return event


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask the values of fields whose names speak of secrets, one level of nested mappings included."""
    _mask(event)
    for key, value in event.items():
        if isinstance(value, dict):
            event[key] = _mask(dict(value))
    return event


def _mask(fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in fields:
        name = str(key).lower().replace("-", "_").replace(".", "_")
        if any(word in name for word in _SECRET_WORDS):
            fields[key] = MASK
    return fields


def _console(colors: bool) -> Processor:
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


def render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """One line of JSON, the fields every line has first. Never raises for what a value is like."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    line = {**first, **event}
    try:
        return orjson.dumps(line, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # integers over 64 bits, lone surrogates: the slow way writes them
        return json.dumps({str(key): value for key, value in line.items()}, default=_as_text)


def _as_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _stdlib_config(level: int, shared: list[Processor], renderer: Processor) -> dict[str, Any]:
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": [structlog.stdlib.add_logger_name, *shared],
    }
    quieter = level if level <= logging.DEBUG else max(level, logging.WARNING)
    silent = level if level <= logging.DEBUG else logging.CRITICAL + 1
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "filters": {"repeats": {"()": Repeats}},
        "handlers": {"line": {"()": _Handler, "formatter": "line"}},
        "root": {"level": level, "handlers": ["line"]},
        "loggers": {
            **{name: {"level": quieter} for name in _LIBRARIES},
            **{name: {"level": silent} for name in _SECOND_APP},
            "librdkafka": {"filters": ["repeats"]},
        },
    }
