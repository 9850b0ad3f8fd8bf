"""Commands against a real Kafka: a topic read without a group, and a broker that outlives the command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from app.local.kafka.processes import is_running
from app.local.kafka.record import read_record
from knative.errors import NotReadyError, PenstockError
from tables.kafka.topic_reader import TopicReader
from tests.support.processes import free_port

_REPOSITORY = Path(__file__).parents[2]
_LIMIT_S = 120


def _penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=_REPOSITORY)


#: Not long ago: the broker may delete what is older than the topic keeps.
_START_MS = int(time.time() * 1000) - 60_000


def _fill(bootstrap: str, topic: str, numbers: range, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in numbers:
        headers: list[tuple[str, str | bytes | None]] = [("ce_id", str(number).encode()), ("penstock-reason", b"x")]
        producer.produce(topic, b"v", b"k", number % partitions, headers=headers, timestamp=_START_MS + number)
    assert producer.flush(180) == 0


def test_a_topic_is_read_without_a_group(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """All of it, the last few by time, and what comes later."""
    topic = make_topic(3)
    client = {"bootstrap.servers": kafka.bootstrap}
    with TopicReader(topic, client) as empty:
        assert list(empty.stored()) == []
        assert list(empty.stored(5)) == []
        _fill(kafka.bootstrap, topic, range(20))
        came = []
        for record in empty.coming(30):
            came.append(record.timestamp_ms - _START_MS)
            if len(came) == 20:
                break
        assert sorted(came) == list(range(20))
    with TopicReader(topic, client) as reader:
        assert sorted(record.timestamp_ms - _START_MS for record in reader.stored()) == list(range(20))
        assert [record.timestamp_ms - _START_MS for record in reader.stored(4)] == [16, 17, 18, 19]
        assert list(reader.coming(0.3)) == []


def test_what_cannot_be_read_is_said(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    """An unknown topic, and a Kafka that is not there."""
    with pytest.raises(PenstockError, match="There is no topic"):
        TopicReader(topic_name(), {"bootstrap.servers": kafka.bootstrap})
    with pytest.raises(NotReadyError, match=r"does not answer.*penstock kafka up"):
        TopicReader("t", {"bootstrap.servers": f"127.0.0.1:{free_port()}"})


def test_tail_of_a_topic(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """JSON lines; exit code 3 when fewer than --count came in time."""
    topic = make_topic(3)
    _fill(kafka.bootstrap, topic, range(5))
    known = ("tail", "--kafka", kafka.bootstrap, "--topic", topic)
    last = _penstock(*known, "--last", "2", "--no-follow", "-o", "json")
    assert last.returncode == 0, last.stderr
    shown = [json.loads(line) for line in last.stdout.splitlines()]
    assert [event["attributes"]["id"] for event in shown] == ["3", "4"]
    assert shown[0]["headers"] == {"penstock-reason": "x"}
    few = _penstock(*known, "--from-beginning", "--count", "6", "--timeout", "1")
    assert few.returncode == 3
    assert len(few.stdout.splitlines()) == 10  # each event, and its penstock-reason
    assert "5 of 6 events" in few.stderr


def test_kafka_up_and_down(tmp_path: Path) -> None:
    """It outlives the command, a second `up` finds it, `down` stops it cleanly."""
    data, port = ("--data", str(tmp_path / "data")), str(free_port())
    try:
        first = _penstock("kafka", "up", *data, "--port", port, "--heap", "256m", "-o", "json")
        assert first.returncode == 0, first.stderr
        again = json.loads(_penstock("kafka", "up", *data, "-o", "json").stdout)
        assert again == json.loads(first.stdout)
        assert (again["state"], again["bootstrap"]) == ("up", f"127.0.0.1:{port}")
        running = read_record(tmp_path / "data")
        assert running is not None
        assert _penstock("kafka", "status", *data).returncode == 0
        other = _penstock("kafka", "up", "--data", str(tmp_path / "other"), "--port", port)
        assert other.returncode == 1
        assert f"Port {port}" in other.stderr
    finally:
        down = _penstock("kafka", "down", *data)
    assert down.returncode == 0
    assert "Kafka is down." in down.stderr
    assert not is_running(running.pid, running.started)
    assert _penstock("kafka", "status", *data).returncode == 3


def test_an_attached_kafka_is_not_stopped_by_others(own_kafka: EmbeddedKafka) -> None:
    """It belongs to the command that runs it: here, to this test session."""
    down = _penstock("kafka", "down", "--data", str(own_kafka.data_dir))
    assert down.returncode == 2
    assert "belongs to a command that still runs" in down.stderr
    assert own_kafka.pid is not None
