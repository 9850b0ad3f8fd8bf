"""Floods of librdkafka become one line each half minute."""

from __future__ import annotations

import logging

from app.observability.log_rate_limit import _KINDS_MAX, Repeats


def line(kind: str, text: str) -> logging.LogRecord:
    """As confluent-kafka hands it on."""
    return logging.LogRecord("librdkafka", logging.ERROR, "", 0, "%s [%s] %s", (kind, "rdkafka#consumer-1", text), None)


def test_one_of_a_kind_in_a_while_and_how_many_there_were() -> None:
    now = [0.0]
    repeats = Repeats(30.0, lambda: now[0])
    assert repeats.filter(line("FAIL", "refused"))
    assert not any(repeats.filter(line("FAIL", f"refused {number}")) for number in range(500))
    assert repeats.filter(line("MAXPOLL", "too slow")), "another kind is logged at once"
    now[0] = 31.0
    next_one = line("FAIL", "refused again")
    assert repeats.filter(next_one)
    assert next_one.getMessage() == "FAIL [rdkafka#consumer-1] refused again (500 more like it before)"
    now[0] = 62.0
    calm = line("FAIL", "100 % refused")
    assert repeats.filter(calm)
    assert calm.getMessage() == "FAIL [rdkafka#consumer-1] 100 % refused"


def test_kinds_are_bounded() -> None:
    repeats = Repeats(30.0, lambda: 0.0)
    for number in range(3 * _KINDS_MAX):
        repeats.filter(line(f"K{number}", ""))
    assert len(repeats._seen) <= _KINDS_MAX
