"""Logs: one stream and one shape for structlog and stdlib logging, no secrets, and Faust may set up logging again."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from mode.utils.logging import setup_logging

from app.observability.logging import MASK, configure_logging, log_uncaught
from app.settings.load import Settings


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Other tests find logging as if nothing had happened here."""
    root = logging.root
    before = (root.level, root.handlers[:], structlog.get_config())
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    structlog.configure(**before[2])
    for name in ("faust", "mode", "aiokafka", "aiohttp.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def _json(**settings: Any) -> tuple[io.StringIO, dict[str, Any]]:
    stream = io.StringIO()
    return stream, configure_logging(Settings(log_format="json", **settings), worker="w-1", stream=stream)


def test_thread_that_fails_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    stream, _ = _json()
    log_uncaught()

    nothing: dict[str, int] = {}
    thread = threading.Thread(target=lambda: nothing["missing"], name="the-thread")
    thread.start()
    thread.join()

    (line,) = _lines(stream)
    assert (line["level"], line["event"], line["thread"]) == ("error", "a thread has failed", "the-thread")
    assert line["exception"].startswith("Traceback (most recent call last)")
    assert line["exception"].endswith("KeyError: 'missing'")


class _FailsToEnd:
    def __del__(self) -> None:
        raise KeyError("missing")


def test_exception_without_a_caller_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    stream, _ = _json()
    log_uncaught()

    _FailsToEnd()

    (line,) = _lines(stream)
    assert "_FailsToEnd" in line["object"]
    assert line["exception"].endswith("KeyError: 'missing'")


def test_line_is_json_with_what_every_line_has() -> None:
    stream, _ = _json()

    structlog.get_logger("some.module").info("event stored", topic="t", body_bytes=3)

    (line,) = _lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info", "event": "event stored", "topic": "t", "body_bytes": 3, "logger": "some.module",
        "worker": "w-1",
    }  # fmt: skip


def test_stdlib_logging_comes_out_the_same() -> None:
    stream, _ = _json()

    logging.getLogger("faust.worker").warning("lost %s of %d", "one", 2)

    (line,) = _lines(stream)
    assert (line["event"], line["level"], line["logger"], line["worker"]) == (
        "lost one of 2", "warning", "faust.worker", "w-1",
    )  # fmt: skip


def test_levels_hold_for_ours_and_a_level_higher_for_libraries() -> None:
    stream, _ = _json(log_level="info")

    structlog.get_logger("a").debug("no")
    logging.getLogger("faust.worker").info("no")
    logging.getLogger("faust.worker").warning("yes")
    logging.getLogger("other").info("yes")

    assert [line["event"] for line in _lines(stream)] == ["yes", "yes"]


def test_messages_of_the_second_app_are_ours_or_only_at_debug() -> None:
    stream, _ = _json(log_level="info")
    logging.getLogger("aiokafka.consumer.fetcher").error("no")
    logging.getLogger("faust.transport.consumer").critical("no")
    assert _lines(stream) == []

    stream, _ = _json(log_level="debug")
    logging.getLogger("aiokafka.consumer.fetcher").error("yes")
    assert [line["event"] for line in _lines(stream)] == ["yes"]


def test_faust_setting_up_logging_again_changes_nothing() -> None:
    stream, config = _json()

    setup_logging(loglevel="INFO", logging_config=dict(config))
    logging.getLogger("mode").error("once")

    assert [line["event"] for line in _lines(stream)] == ["once"]


def test_configuring_again_reaches_existing_loggers() -> None:
    first, _ = _json()
    log = structlog.get_logger("a")
    log.info("one")
    second = io.StringIO()

    configure_logging(Settings(log_format="json"), worker="w-2", stream=second)
    log.info("two")

    assert [line["event"] for line in _lines(first)] == ["one"]
    assert [(line["event"], line["worker"]) for line in _lines(second)] == [("two", "w-2")]


def test_secrets_are_masked_in_fields_and_one_level_below() -> None:
    stream, _ = _json()

    structlog.get_logger("a").info("x", password="hunter2", kafka={"sasl.password": "hunter2", "retries": 1})

    (line,) = _lines(stream)
    assert line["password"] == MASK
    assert line["kafka"] == {"sasl.password": MASK, "retries": 1}


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_tracebacks_show_no_local_variables(log_format: str) -> None:
    stream = io.StringIO()
    configure_logging(Settings.model_validate({"log_format": log_format}), stream=stream)
    canary = "hunter" + "2"

    try:
        raise ValueError(len(canary))
    except ValueError:
        structlog.get_logger("a").exception("failed")
        logging.getLogger("b").exception("failed")

    assert stream.getvalue().count("ValueError: 7") == 2
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("value", [2**70, "\ud800", b"\xff", {1, 2}, {1: 2}, SimpleNamespace()])
def test_no_value_breaks_a_line(value: object) -> None:
    stream, _ = _json()

    structlog.get_logger("a").info("x", value=value, text="two\nlines")

    (line,) = _lines(stream)
    assert line["text"] == "two\nlines"


def test_auto_is_pretty_on_a_terminal_and_json_elsewhere() -> None:
    terminal, pipe = _Terminal(), io.StringIO()

    for stream in (terminal, pipe):
        configure_logging(Settings(), stream=stream)
        structlog.get_logger("a").info("hello")

    assert not terminal.getvalue().startswith("{")
    assert "hello" in terminal.getvalue()
    assert _lines(pipe)


def test_reader_of_logs_may_go_away() -> None:
    stream, _ = _json()
    stream.close()

    structlog.get_logger("a").info("not logged")
    logging.getLogger("b").warning("nor this")

    assert stream.closed


def test_standard_error_is_the_default(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging(Settings(log_format="json"))
    structlog.get_logger("a").info("hello")
    sys.stdout.flush()

    captured = capfd.readouterr()
    assert captured.out == ""
    assert '"event":"hello"' in captured.err
