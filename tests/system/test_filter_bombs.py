"""Filters that ask for too much: they stop nobody else, and their Triggers' statuses say so.

events with an attribute of 100 kB --> worker `all` --> "bombs": Triggers whose filters would take minutes or gigabytes
                                                  `---> "healthy": Triggers of the same broker and of another one
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.filter_bombs import MEMORY_BOMB, TIME_BOMB
from tests.support.installation import Installation
from tests.support.processes import Worker, get, wait_until
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber
from tests.system.sending import post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
MIB = 1 << 20
RSS_MORE_MAX = 200 * MIB  #: what the memory bomb may add: 48 MB of buffered events, and their attributes
TIME_EVENTS = 12


@contextmanager
def _asking(worker: Worker) -> Iterator[list[float]]:
    """Asks ingress all the time; gives how long each answer took, in seconds."""
    took_s: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(0.02):
            began_s = time.monotonic()
            status, _ = get(worker.port, "/healthz", LIMIT_S)
            took_s.append(time.monotonic() - began_s)
            assert status == 200

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took_s
    finally:
        ended.set()
        thread.join()


def _condition(broker: Installation, name: str, type_: str = "Subscribed") -> dict[str, Any]:
    conditions: list[dict[str, Any]] = broker.status("Trigger", name)["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == type_)


def _exceeded(worker: Worker, name: str) -> float:
    _, body = get(worker.admin_port, "/metrics")
    start = f'penstock_filter_limits_exceeded_total{{subscription="test/trigger:{name}"}} '
    return sum(float(line.removeprefix(start)) for line in body.decode().splitlines() if line.startswith(start))


def _send(worker: Worker, broker: Installation, event_id: str, attribute: str = "x") -> None:
    answered = post(worker.port, broker.resources.path, event_id, b"x", [("ce-a", attribute)])
    assert answered.status == 202, answered


@pytest.mark.parametrize(
    ("filters", "count", "attribute", "matching"),
    [
        pytest.param([MEMORY_BOMB], 1, "a" * 120_000, ["first"], id="memory"),
        pytest.param([TIME_BOMB], TIME_EVENTS, "a" * 100_000, [], id="time"),
        pytest.param([TIME_BOMB], TIME_EVENTS, "a" * 60_000, [], id="time, attributes that filters look at"),
    ],
)
def test_filter_that_asks_for_too_much_stops_nobody_else(
    kafka: EmbeddedKafka,
    tmp_path: Any,
    filters: list[dict[str, Any]],
    count: int,
    attribute: str,
    matching: list[str],
    record_property: Any,
) -> None:
    shared = Installation(kafka.bootstrap, tmp_path, channel="shared", is_broker=True)
    other = shared.beside("other")
    with ScriptedSubscriber() as subscriber, shared.worker() as worker:
        shared.write(
            [
                Wanted("bomb", subscriber.url("/bomb"), filter={"filters": filters}),
                Wanted("beside", subscriber.url("/beside"), filter={"filters": [{"cesql": "type LIKE 'test.%'"}]}),
            ]
        )
        other.write([Wanted("elsewhere", subscriber.url("/elsewhere"))])
        worker.wait_ready()
        shared.wait_triggers(["bomb", "beside"], LIMIT_S)
        other.wait_triggers(["elsewhere"], LIMIT_S)
        _send(worker, shared, "first")
        wait_until("the first event arrives", lambda: len(subscriber.requests("/beside")) == 1, LIMIT_S)
        rss_bytes = worker.rss_bytes()
        with _asking(worker) as took_s:
            for number in range(count):
                _send(worker, shared, f"large-{number}", attribute)
                _send(worker, other, f"small-{number}")
            wait_until("others get theirs", lambda: len(subscriber.requests("/elsewhere")) == count, LIMIT_S)
            wait_until("beside it too", lambda: len(subscriber.requests("/beside")) == 1 + count, LIMIT_S)
            shared.wait_settled(["bomb", "beside"], LIMIT_S)
        more = worker.most_rss_bytes() - rss_bytes
        record_property("longest_answer_s", max(took_s))
        record_property("rss_more_bytes", more)
        print(f"longest answer {max(took_s):.3f} s, RSS {rss_bytes / MIB:.0f} + {more / MIB:.0f} MB")
        assert [request.attributes["id"] for request in subscriber.requests("/bomb")] == matching
        assert more < RSS_MORE_MAX
        wait_until("the metric counts them", lambda: _exceeded(worker, "bomb") == count, LIMIT_S)
        assert _exceeded(worker, "beside") == 0
        wait_until(
            "the status says it", lambda: _condition(shared, "bomb").get("reason") == "FilterLimitExceeded", LIMIT_S
        )
        for type_ in ("Subscribed", "Ready"):
            condition = _condition(shared, "bomb", type_)
            assert (condition["status"], condition["reason"]) == ("True", "FilterLimitExceeded")
            assert "do not match" in condition["message"]
            assert "reason" not in _condition(shared, "beside", type_)
        assert worker.terminate() == 0, worker.tail()
