"""Commands against a real Kafka: a topic read without a group, and a broker that lives as long as the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from knative.errors import NotReadyError, PenstockError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.topic_reader import TopicReader
from tests.support.proc import children, start_time
from tests.support.processes import free_port, wait_until

_REPOSITORY = Path(__file__).parents[2]
_LIMIT_S = 180


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


def test_topic_is_read_without_a_group(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
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
    command = ("tail", "--kafka", kafka.bootstrap, "--topic", topic)
    last = _penstock(*command, "--last", "2", "--no-follow", "-o", "json")
    assert last.returncode == 0, last.stderr
    events = [json.loads(line) for line in last.stdout.splitlines()]
    assert [event["attributes"]["id"] for event in events] == ["3", "4"]
    assert events[0]["headers"] == {"penstock-reason": "x"}
    few = _penstock(*command, "--from-beginning", "--count", "6", "--timeout", "1")
    assert few.returncode == 3
    assert len(few.stdout.splitlines()) == 10  # each event, and its penstock-reason
    assert "5 of 6 events" in few.stderr


@contextmanager
def _up(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once it has said that Kafka is up."""
    command = [sys.executable, "-m", "app.cli", "kafka", "up", "--heap", "256m", "--timeout", str(_LIMIT_S), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_REPOSITORY) as up:
        try:
            assert up.stdout is not None
            assert "Kafka is up" in up.stdout.readline(), up.communicate(timeout=_LIMIT_S)[1]
            yield up
        finally:
            up.kill()


def _has_gone(pid: int, started: int | None) -> bool:
    return start_time(pid) != started


def test_kafka_lives_as_long_as_the_command_that_runs_it(tmp_path: Path) -> None:
    """However that ends, its port and its directory are free, and the next one has the data."""
    port = free_port()
    admin = KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{port}"}, _LIMIT_S)
    codes = {}
    for end in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        with _up("--data", str(tmp_path), "--port", str(port)) as up:
            before = set(admin.cluster().topics)
            admin.create_topic(end.name, 1, 1, {})
            (java,) = children(up.pid)
            gone = partial(_has_gone, java, start_time(java))
            up.send_signal(end)
            codes[end] = up.wait(_LIMIT_S)
            wait_until("Kafka's process has gone", gone, _LIMIT_S)
    assert codes == {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 0, signal.SIGTERM: 0}
    assert {"SIGKILL", "SIGINT"} <= before


def test_second_kafka_on_a_directory_or_a_port_is_refused(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    data = own_kafka.data_dir
    same_directory = _penstock("kafka", "up", "--data", str(data), "--port", str(free_port()))
    assert same_directory.returncode == 2
    assert f"Another command runs a Kafka in {data}. Stop it (Ctrl-C in its terminal)" in same_directory.stderr
    same_port = _penstock("kafka", "up", "--data", str(tmp_path / "other"), "--port", str(own_kafka.port))
    assert same_port.returncode == 1
    assert f"Port {own_kafka.port}" in same_port.stderr
    assert own_kafka.pid is not None


def test_directory_that_cannot_be_written_names_its_option(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    done = _penstock("kafka", "up", "--data", str(tmp_path), "--port", str(free_port()))
    assert done.returncode == 1
    assert f"Kafka's data cannot be written to {tmp_path}: Is a directory. Choose another" in done.stderr
    assert "--data DIR" in done.stderr


def test_kafka_that_ends_by_itself_ends_the_command(tmp_path: Path) -> None:
    with _up("--data", str(tmp_path), "--port", str(free_port())) as up:
        os.kill(children(up.pid)[0], signal.SIGKILL)
        _, said = up.communicate(timeout=_LIMIT_S)
    assert up.returncode == 1
    assert f"The embedded Kafka exited (exit code -9). Its log is {tmp_path / 'broker.log'}." in said
