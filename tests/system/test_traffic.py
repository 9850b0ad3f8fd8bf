"""Traffic windows of real workers: exact sums, the same from every worker and after a kill; and nothing when off."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from app.cli.traffic import read_lines
from app.local.kafka import EmbeddedKafka
from knative.contract import kafka_names
from tests.support.installation import Installation
from tests.support.processes import Worker, get, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
EVENTS = 40


def page(worker: Worker, query: str) -> dict[str, Any]:
    """The windows of one answer; {} while there is none."""
    status, body = get(worker.port, f"/traffic?{query}")
    assert status in (200, 503), body
    document: dict[str, Any] = json.loads(body) if status == 200 else {}
    return document


def sums(worker: Worker, installation: Installation, query: str) -> dict[str, Counter[str]]:
    """Subscription ("" = the channel itself) -> sums over all windows."""
    totals: dict[str, Counter[str]] = {}
    for channel in page(worker, query).get("channels", []):
        assert (channel["namespace"], channel["name"]) == (NAMESPACE, installation.resources.channel)
        rows = {
            "": channel["windows"],
            **{subscription["name"]: subscription["windows"] for subscription in channel["subscriptions"]},
        }
        for name, windows in rows.items():
            total = totals.setdefault(name, Counter())
            for window in windows:
                total.update({key: value for key, value in window.items() if isinstance(value, int) and value})
    return totals


def expected_sums(events: int, retried: int) -> dict[str, Counter[str]]:
    """What the sums must be after this many events of seven bytes each."""
    size = 7 * events
    return {
        "": Counter(accepted=events, bytes=size),
        "good": Counter(delivered=events, bytes=size),
        "flaky": Counter(delivered=events, retried=retried, bytes=size),
        "bad": Counter(deadLettered=events, bytes=size),
    }


def test_windows_are_exact_in_every_worker_and_after_a_kill(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Two workers take events in and deliver them; one is killed while nothing is under way, and comes back."""
    installation = Installation(kafka.bootstrap, tmp_path, 2, env={"PENSTOCK_SESSION_TIMEOUT_S": "6"})
    retry = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
    with ScriptedSubscriber() as subscriber:
        flaky = subscriber.script("/flaky", says(503), says(503), says(200), says(503), says(200))
        good, bad = subscriber.script("/good", says(200)), subscriber.script("/bad", says(400))
        installation.write([Wanted("good", good), Wanted("flaky", flaky, delivery=retry), Wanted("bad", bad)])
        with installation.worker() as first, installation.worker(controller=False) as second:
            workers = (first, second)
            for worker in workers:
                worker.wait_ready()
            installation.wait_subscribers(first, 3)
            _post(workers, installation)
            for worker in workers:
                for query in ("window=10s&last=90", "window=1m"):
                    _wait_for(worker, installation, query, expected_sums(EVENTS, 3))
            latency = page(first, "window=1m")["channels"][0]["subscriptions"][-1]["windows"][-1]["latencySeconds"]
            assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] < LIMIT_S
            lines = read_lines({"bootstrap.servers": kafka.bootstrap}, installation.name, 60, 30)
            assert [(line.subscription, line.windows.keys() != set()) for line in lines] == [
                (name, True) for name in ("", "bad", "flaky", "good")
            ]

            installation.wait_settled(["good", "flaky", "bad"], LIMIT_S)  # committed: nothing comes again
            first.kill()
            with installation.worker() as third:
                third.wait_ready()
                _wait_for(third, installation, "window=1m", expected_sums(EVENTS, 3))
                _post((third, second), installation)
                for worker in (third, second):
                    _wait_for(worker, installation, "window=1m", expected_sums(2 * EVENTS, 3))
                assert third.terminate() == 0, third.tail()
            assert second.terminate() == 0, second.tail()
            assert "aiokafka" not in second.log.read_text()


def _post(workers: tuple[Worker, Worker], installation: Installation) -> None:
    target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
    for number in range(EVENTS):
        assert post(workers[number % 2].port, target, f"e{number}", b"{'a':1}").status == 202


def _wait_for(worker: Worker, installation: Installation, query: str, sums_wanted: dict[str, Counter[str]]) -> None:
    seen: list[dict[str, Counter[str]]] = []

    def there() -> bool:
        seen[:] = [sums(worker, installation, query)]
        return seen[0] == sums_wanted

    try:
        wait_until(f"the windows of {query} are as they must be", there, LIMIT_S)
    except AssertionError as problem:
        raise AssertionError(f"{seen} instead of {sums_wanted}\n{worker.tail()}") from problem


def test_switched_off_there_is_nothing_of_it(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """No topic, no group, no page; events flow all the same."""
    installation = Installation(kafka.bootstrap, tmp_path, env={"PENSTOCK_TRAFFIC": "false"})
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("good", subscriber.script("/good", says(200)))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            assert post(worker.port, target, "e1", b"{}").status == 202
            wait_until("it is delivered", lambda: bool(subscriber.requests("/good")), LIMIT_S)
            status, body = get(worker.port, "/traffic")
            assert status == 404
            assert "PENSTOCK_TRAFFIC=true" in json.loads(body)["error"]
            assert worker.terminate() == 0, worker.tail()
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=60).topics
    made = {name for name in topics if name.startswith(f"{installation.name}.")}
    assert kafka_names.contract_topic(installation.name) in made
    assert not {name for name in made if "traffic" in name or "windows" in name}
