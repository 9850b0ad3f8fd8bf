"""Logging: JSON lines for machines or text on a terminal; structlog and the standard library in one stream.

    structlog.get_logger(__name__).info("...", key=value) --+
                                                            +--> processors --> one line --> standard error
    faust, mode, aiokafka, confluent_kafka (stdlib) --------+

A line has timestamp (ISO 8601, UTC), level, event, logger, worker and the fields. A call below the level is a no-op.
Values of fields with names such as `password` are masked, and tracebacks never show local variables. Nothing goes to
standard output, which is for the results of commands.
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

#: These log their internals at info: they log from warning on, except at level debug.
_LIBRARIES = ("faust", "mode", "aiokafka", "aiohttp.access", "asyncio")

#: Only the second Faust app uses these, and the clients for groups. What fails there is logged once by
#: `app/worker/traffic/windows_app`, `agents/offsets/commits` and the controller; these would log it several times a
#: second, with tracebacks. So they are silent except at level debug.
_SECOND_APP = ("aiokafka", "faust.assignor", "faust.tables", "faust.transport", "mode.threads", "mode.windows")


class LogSettings(Protocol):
    """The settings that logging needs."""

    @property
    def log_level(self) -> str: ...
    @property
    def log_format(self) -> str: ...
    @property
    def worker_id(self) -> str: ...


class _Output:
    """Writes the lines. It keeps its own stream, because Faust replaces `sys.stderr` by a proxy into logging."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Write one whole line, from any thread."""
        stream = self.stream or sys.__stderr__
        # A broken pipe of the log must not stop the delivery of events, and there is nowhere left to report it.
        with self._lock, contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.write(line + "\n")
                stream.flush()


# structlog caches loggers at first use. These objects are changed in place, so that a new configuration reaches loggers
# that exist already.
_output = _Output()
_processors: list[Processor] = []


class _LineLogger:
    """Takes rendered lines from structlog. It has a name, and the methods of a stdlib logger."""

    __slots__ = ("critical", "debug", "error", "exception", "info", "msg", "name", "warning")

    def __init__(self, name: str = "", *_: Any) -> None:
        self.name = name
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = _output.write


class _Handler(logging.Handler):
    """Writes stdlib records to the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. Never raises: logging reports its own failures with `handleError`."""
        try:
            _output.write(self.format(record))
        except Exception:
            self.handleError(record)


def configure_logging(settings: LogSettings, worker: str | None = None, stream: TextIO | None = None) -> dict[str, Any]:
    """Configure structlog and stdlib logging. May be called more than once.

    Returns the dict for Faust's `logging_config`: Faust's worker configures the root logger again when it starts, and
    this dict has the same result. Every line has `worker` (default: the setting `worker_id`). `stream` is the real
    standard error by default.
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


def log_uncaught() -> None:
    """From now on, an exception that ends a thread, and one that Python can only report, are one log record each."""
    log = structlog.get_logger(__name__)

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit and args.exc_value is not None:
            what = (args.exc_type, args.exc_value, args.exc_traceback)
            log.error("a thread has failed", thread=getattr(args.thread, "name", None), exc_info=what)

    def of_nobody(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None:
            what = (args.exc_type, args.exc_value, args.exc_traceback)
            log.error(args.err_msg or "an exception was ignored", object=repr(args.object), exc_info=what)

    threading.excepthook = of_thread
    sys.unraisablehook = of_nobody


def _json_processors(worker: str) -> list[Processor]:
    """Returns processors of every line that is rendered as JSON, of structlog and stdlib alike."""

    def add_worker(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if worker:
            event["worker"] = worker
        return event

    timestamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [timestamp, add_worker, *_always()]


def _pretty_processors() -> list[Processor]:
    """Returns processors of every line that is rendered for a terminal, without worker and date."""
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), *_always()]


def _always() -> list[Processor]:
    # format_exc_info writes a plain traceback: one with local variables would show secrets
    return [structlog.processors.add_log_level, structlog.processors.format_exc_info, mask_secrets]


def _add_logger_name(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["logger"] = getattr(logger, "name", "")
    return event


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask the values of fields with names such as `password`, including those one level deep in nested mappings."""
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
    """Returns one line of JSON, with the common fields first. Never raises, whatever the values are."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    line = {**first, **event}
    try:
        return orjson.dumps(line, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # integers over 64 bits and lone surrogates: the slower encoder accepts them
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
