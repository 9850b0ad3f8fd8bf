"""Which lines of a child's log are shown."""

from __future__ import annotations

import json

from app.local.child_process import loud_line


def test_complaints_of_a_fresh_kafka_stay_in_the_log() -> None:
    line = '{"level": "warning", "event": "GETPID [x]: Coordinator load in progress: retrying"}'
    assert loud_line(line, ("GETPID ",)) is None
    assert loud_line(line) == "warning: GETPID [x]: Coordinator load in progress: retrying"


def test_only_warnings_and_errors_are_loud() -> None:
    assert loud_line('{"level": "warning", "event": "odd", "topic": "t", "logger": "x"}') == "warning: odd topic=t"
    assert loud_line('{"level": "info", "event": "fine"}') is None
    assert loud_line('{"level": "error", "event": "odd", "field": "", "line": null, "n": 0}') == "error: odd n=0"
    trace = {"level": "critical", "event": "ends", "exception": "Traceback\n  File x\nTypeError: odd"}
    assert loud_line(json.dumps(trace)) == "critical: ends TypeError: odd"
    assert loud_line("plain") is None
    assert loud_line("{broken") is None
