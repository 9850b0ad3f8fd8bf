"""Records of internal topics that are not valid: a worker names and skips them, while it runs and when it starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import contract_topic, redriven_topic, status_topic, traffic_topic
from tables.kafka.topic_reader import TopicReader
from tests.support.installation import Installation
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.support.resources import Wanted

pytestmark = pytest.mark.system

LIMIT_S = 180.0


def _records(bootstrap: str, topic: str) -> dict[bytes, dict[str, Any]]:
    with TopicReader(topic, {"bootstrap.servers": bootstrap}) as reader:
        return {record.key: orjson.loads(record.value) for record in reader.stored() if record.key and record.value}


def _bad_records(installation: Installation) -> list[tuple[str, bytes, bytes]]:
    """Topic, key and value: good records of this installation with one field that is not valid, and what is no JSON."""
    contract, status = contract_topic(installation.name), status_topic(installation.name)
    uid = installation.uid("a").encode()
    good = _records(installation.bootstrap, contract)[uid]
    worker = next(value for value in _records(installation.bootstrap, status).values() if "subscriptions" in value)
    changes: list[dict[str, object]] = [
        {"group": ""},
        {"generation": "x"},
        {"topic": "/"},
        {"partitions": -1},
        {"subscriber": {"uri": "x"}},
    ]
    bad: list[tuple[str, bytes, bytes]] = []
    for number, change in enumerate(changes):
        entry = {**good["subscription"], "uid": f"bad{number}", **change}
        bad.append((contract, f"bad{number}".encode(), orjson.dumps({**good, "subscription": entry})))
    bad.append((contract, uid, b"junk"))
    bad.append((status, b"bad-worker", orjson.dumps({**worker, "subscriptions": 7})))
    bad.append((status, b"/remove/u", b"[]"))
    bad.append((status, b"/seek/s", b'{"schema":1,"seek":{"id":7}}'))
    bad.append((status, b"/leader/1-a/seek/s", b'{"schema":1,"leader":{"seek":[]}}'))
    bad.append((traffic_topic(installation.name), b"x", b'{"v":1,"by":7}'))
    return bad


def _named(worker: Worker, key: str) -> int:
    lines = worker.log.read_text().splitlines()
    return sum(f"with the key {key!r} cannot be read and is skipped" in orjson.loads(line)["event"] for line in lines)


def test_bad_records_end_and_blind_no_process(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path)
    with SinkProcess(tmp_path, {"a": "", "b": ""}) as sink:
        installation.write([Wanted("a", sink.url("a"))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            bad = _bad_records(installation)
            producer = Producer({"bootstrap.servers": kafka.bootstrap})
            for topic, key, value in bad:
                producer.produce(topic, value, key)
            assert producer.flush(LIMIT_S) == 0
            installation.resources.write(Wanted("b", sink.url("b")))  # its record comes after the bad ones
            installation.wait_subscribers(worker, 2)
            _sends(installation, worker, tmp_path)
            for _, key, _ in bad:
                wait_until(f"{key!r} is named", lambda key=key: _named(worker, key.decode()) == 1, LIMIT_S)  # type: ignore[misc]
            assert worker.terminate() == 0, worker.tail()
        ledger = redriven_topic(installation.name)
        producer.produce(ledger, b'{"schema":1}', f"{installation.resources.topic}.dlq/0/0".encode())
        assert producer.flush(LIMIT_S) == 0
        with installation.worker() as worker:  # and what begins with them in its topics
            worker.wait_ready()
            installation.wait_subscribers(worker, 2)
            _sends(installation, worker, tmp_path)
            assert [_named(worker, key) for key in ("bad0", "bad-worker")] == [1, 1]
            status = installation.penstock("status", "-o", "json")
            assert status.returncode == 0, status.stderr
            assert {row["subscription"] for row in orjson.loads(status.stdout)["subscriptions"]} == {"test/a", "test/b"}
            assert len(re.findall("the record .*'bad[0-9]' cannot be read", status.stderr)) == 5
            letters = installation.penstock("dlq", "list")
            assert letters.returncode == 0, letters.stderr
            assert worker.terminate() == 0, worker.tail()


def _sends(installation: Installation, worker: Worker, folder: Path) -> None:
    with LoadProcess(folder, installation.url(worker), events=20, rate=100) as load:
        assert load.result(LIMIT_S)["statuses"] == {"202": 20}
    installation.wait_settled(["a", "b"], LIMIT_S)
