"""The census example against a real Kafka: topics, junk in them, topics that go away. Its read has the system test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from examples.census import topics
from examples.census.read import FileRow, records_of
from examples.census.samples import plain_count, write
from examples.census.totals import tally
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.processes import Child, free_port, get, run, wait_until

pytestmark = pytest.mark.integration

_LIMIT_S = 300.0
_CENSUS = [sys.executable, "-m", "examples.census"]


class Census:
    """Commands for two topics of one test."""

    def __init__(self, kafka: EmbeddedKafka, name: str, folder: Path) -> None:
        self.kafka, self.folder = kafka.bootstrap, folder
        self.compute, self.results = f"{name}-compute", f"{name}-results"
        self.port = free_port()
        self.admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap})

    def run(self, *arguments: str, code: int = 0) -> str:
        """To its end, which must be `code`; its output, or what it complained of."""
        done = run([*_CENSUS, *arguments, "--kafka", self.kafka], os.environ, _LIMIT_S)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def put(self, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
        """Records, as anybody may write them, by the partitioner of Java."""
        producer = Producer({"bootstrap.servers": self.kafka, "partitioner": "murmur2_random"})
        for key, value in records:
            producer.produce(topic, value, key)
        assert producer.flush(180) == 0

    def put_chunks(self, path: Path) -> None:
        """Those of a file of 2019, as `read` writes them."""
        topics.ensure(self.admin, self.compute, 3, 1)
        self.put(self.compute, *(r for r in records_of(2019, path.as_uri()) if not isinstance(r, FileRow)))

    def start(self, *arguments: str) -> Child:
        """In the background."""
        given = ["--compute-topic", self.compute, "--results-topic", self.results, "--results-port", str(self.port)]
        return Child("census", [*_CENSUS, *arguments, *given, "--kafka", self.kafka], self.folder)

    def wait(self, what: str, holds: Callable[[dict[str, Any]], bool], *children: Child) -> dict[str, Any]:
        """Until it holds of the totals."""
        page: dict[str, Any] = {}

        def look() -> bool:
            assert all(child.running for child in children), [child.tail() for child in children]
            status, body = get(self.port, "/results?wide")
            page.clear()
            page.update(json.loads(body) if status == 200 else {})
            return bool(page) and holds(page)

        wait_until(what, look, _LIMIT_S)
        return page


def _read_of(metrics: bytes) -> int:
    return int(metrics.decode().rpartition("kafka_scale_result_messages_read ")[2] or 0)


def _has(chunks: int, page: dict[str, Any]) -> bool:
    return bool(page["chunks"] >= chunks)


@pytest.fixture
def census(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Census]:
    census = Census(kafka, topic_name(), tmp_path)
    yield census
    census.admin.close()


def test_topics_are_listed_measured_and_removed_only_with_force(census: Census, tmp_path: Path) -> None:
    """Listed with their leaders, measured, removed; nothing is removed without --force."""
    assert "no topic" in census.run("compute", "--compute-topic", census.compute, code=1)
    census.put_chunks(write(tmp_path, 2019, "jan", 43))
    assert topics.ensure(census.admin, census.compute, 7, 1).partitions == (0, 1, 2)  # it is there
    rows = [line.split() for line in census.run("topiclist").splitlines()]
    assert [row for row in rows if row[0] == census.compute] == [
        [census.compute, str(number), census.kafka] for number in range(3)
    ]
    rows = [line.split() for line in census.run("--topic", census.compute, "offsets").splitlines()]
    assert rows[0] == ["TOPIC", "PARTITION", "COMMITTED", "LAST", "GROUP"]
    assert [row[:2] for row in rows[1:]] == [[census.compute, str(number)] for number in range(3)]
    assert sum(int(row[-1]) for row in rows[1:]) == 5
    assert "--force" in census.run("rmtopics", "--topic", census.compute, code=2)
    assert f"Removed {census.compute}" in census.run("rmtopics", "--topic", census.compute, "--force")
    wait_until("it is gone", lambda: census.compute not in topics.names(census.admin), 180)
    census.run("rmtopics", "--topic", f"{census.compute},__consumer_offsets", "--force")  # nothing to do is no failure
    assert "no topic" in census.run("offsets", "--topic", census.compute, code=1)


def test_without_kafka_a_command_is_not_ready() -> None:
    done = run([*_CENSUS, "topiclist", "--kafka", f"127.0.0.1:{free_port()}"], os.environ, _LIMIT_S)
    assert done.returncode == 3
    assert "penstock kafka up" in done.stderr


def test_limited_compute_prints_the_same_results_again(census: Census, tmp_path: Path) -> None:
    census.put_chunks(write(tmp_path, 2019, "jan", 43))
    for _ in range(2):
        printed = census.run("compute", "--compute-topic", census.compute, "--write-to", "stdout", "--chunks", "5")
        assert {line.split("/")[3].split()[0] for line in printed.splitlines()} == {"0", "1", "2", "3", "4"}
    assert census.results not in topics.names(census.admin)


def test_junk_changes_no_total(census: Census, tmp_path: Path) -> None:
    """In both topics; then a restart of the totals; then their topic is removed under them."""
    path = write(tmp_path, 2019, "jan", 1_001, 0.03)
    census.put_chunks(path)
    census.put(census.compute, (b"junk", b"junk"), (None, None))
    metrics_port = free_port()
    with (
        census.start("compute") as compute,
        census.start("results", "--with-metrics", "--metrics-port", str(metrics_port)) as results,
    ):
        census.wait("all is counted", lambda page: page["chunks"] == 101, compute, results)
        census.put(census.results, (b"junk", b"junk"), (None, None))
        page = census.wait("the junk was read", lambda page: page["records"] >= 103, compute, results)
        wait_until("the metric counts", lambda: _read_of(get(metrics_port, "/metrics")[1]) >= 103, 60)
        assert get(census.port, "/readyz")[0] == 200
        counted = json.loads(get(census.port, "/results")[1])["2019"]
        assert counted["1"]["Count"] == plain_count([(2019, path)])[2019]["1"]
        assert compute.terminate() == 0
        assert results.terminate() == 0
    assert {key: page[key] for key in ("years", "problems", "lines")} == tally(plain_count([(2019, path)]))
    assert (page["lines"], page["complete"], page["behind"]) == (1_001, True, 0)
    with census.start("results") as results:
        again = census.wait("totals are back", lambda page: not page["behind"] and page["records"] >= 103, results)
        assert {**again, "records": page["records"]} == page
        removed = census.run("rmtopics", "--topic", census.results, "--force").splitlines()
        assert len(removed) == 2  # and the changelog
        assert results.wait(180) == 1
        assert census.results in results.tail()


def test_group_that_is_killed_loses_and_repeats_nothing(census: Census, tmp_path: Path) -> None:
    """Two processes count, and are killed by turns with the totals in between; every chunk counts once."""
    path = write(tmp_path, 2019, "jan", 3_003, 0.03)
    census.put_chunks(path)
    killed = 0
    children = {
        name: census.start(name.partition("-")[0], "--delay", "10") for name in ("compute-1", "compute-2", "results")
    }
    try:
        for name, least in (("compute-1", 20), ("results", 60), ("compute-2", 120)):
            census.wait(f"{least} chunks are counted", partial(_has, least))
            children[name].kill()
            killed += 1
            children[name] = census.start(name.partition("-")[0], "--delay", "10")
        page = census.wait("all is counted", lambda page: bool(page["complete"]) and page["chunks"] == 301)
    finally:
        for child in children.values():
            child.kill()
    assert killed == 3
    assert {key: page[key] for key in ("years", "problems", "lines")} == tally(plain_count([(2019, path)]))
