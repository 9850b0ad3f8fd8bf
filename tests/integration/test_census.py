"""The census commands against a real Kafka: topics, junk in them, topics that go away (Spark: see the system test)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from analytics.census.generator import Recipe, write
from analytics.census.plain import count_files, same
from app.census.topics import Topics
from app.local.kafka import EmbeddedKafka
from tables.kafka.topic_reader import TopicReader
from tests.support.processes import Child, free_port, get, run, wait_until

pytestmark = pytest.mark.integration

_LIMIT_S = 300.0
_CENSUS = [sys.executable, "-m", "app.cli", "census"]
_CHUNKS = "kafka_scale_chunks_written"


class Census:
    """Commands for two topics of one test."""

    def __init__(self, kafka: EmbeddedKafka, name: str, folder: Path) -> None:
        self.kafka, self.folder = kafka.bootstrap, folder
        self.compute, self.results = f"{name}-compute", f"{name}-results"
        self.port = free_port()
        self.topics = ["--compute-topic", self.compute]

    def run(self, *arguments: str, code: int = 0) -> str:
        """To its end, which must be `code`; its output, or what it complained of."""
        done = run([*_CENSUS, *arguments, "--kafka", self.kafka], os.environ, _LIMIT_S)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def read(self, path: Path, *more: str, code: int = 0) -> str:
        """A file of 2019."""
        return self.run("read", "--years", "2019", "--from-file", str(path), *self.topics, *more, code=code)

    def start(self, *arguments: str) -> Child:
        """In the background."""
        given = [*arguments, "--results-topic", self.results, "--kafka", self.kafka]
        return Child("census", [*_CENSUS, *given], self.folder)

    def start_compute(self) -> Child:
        """With Faust."""
        return self.start("compute", "--engine", "faust", *self.topics)

    def start_results(self, *more: str) -> Child:
        """At `port`."""
        return self.start("results", "--port", str(self.port), *more)

    def wide(self) -> dict[str, Any]:
        """The current totals; empty while there is no answer."""
        status, body = get(self.port, "/results?wide")
        found: dict[str, Any] = json.loads(body) if status == 200 else {}
        return found

    def wait(self, what: str, holds: Callable[[dict[str, Any]], bool], *children: Child) -> dict[str, Any]:
        """Until it holds of the totals."""
        found: dict[str, Any] = {}

        def look() -> bool:
            assert all(child.running for child in children), [child.tail() for child in children]
            found.clear()
            found.update(self.wide())
            return bool(found) and holds(found)

        wait_until(what, look, _LIMIT_S)
        return found

    def put(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """One record, as anybody may write it."""
        producer = Producer({"bootstrap.servers": self.kafka})
        producer.produce(topic, value, key)
        assert producer.flush(180) == 0


@pytest.fixture
def census(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> Census:
    return Census(kafka, topic_name(), tmp_path)


def test_topics(census: Census, tmp_path: Path) -> None:
    """Made by read, with the partitions asked for, listed, measured, removed; nothing is removed without a yes."""
    file = write(tmp_path, 2019, "jan", Recipe(43)).path
    assert "no topic" in census.run("compute", "--compute-topic", census.compute, code=1)
    census.read(file, "--partitions", "3")
    census.read(file)  # again: it is there
    rows = json.loads(census.run("topiclist", "-o", "json"))
    assert [(row["partitions"], row["replicas"]) for row in rows if row["topic"] == census.compute] == [(3, 1)]
    rows = json.loads(census.run("offsets", "--topic", census.compute, "-o", "json"))
    assert [row["partition"] for row in rows] == [0, 1, 2]
    assert sum(row["lag"] for row in rows) == 10
    with TopicReader(census.compute, {"bootstrap.servers": census.kafka}) as reader:
        records = list(reader.stored())
    assert len({record.key for record in records}) == 5
    assert {dict(record.headers)["year"] for record in records} == {b"2019"}
    assert sum((record.value or b"").count(b"\n") + 1 for record in records) == 86
    assert "--force" in census.run("rmtopics", "--topic", census.compute, code=2)
    assert "internal topic" in census.run("rmtopics", "--topic", "__consumer_offsets", "--force", code=2)
    assert census.compute in census.run("rmtopics", "--topic", census.compute, "--dry-run")
    assert census.compute in census.run("topiclist", "-o", "name").splitlines()
    assert f"Removed {census.compute}" in census.run("rmtopics", "--topic", census.compute, "--force")
    wait_until("it is gone", lambda: census.compute not in census.run("topiclist", "-o", "name").splitlines(), 180)
    census.run("rmtopics", "--topic", census.compute, "--force")  # nothing to do is no failure
    assert "no topic" in census.run("offsets", "--topic", census.compute, code=1)


def test_a_topic_that_goes_while_all_are_listed_is_left_out(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    class Listing(Topics):
        def names(self) -> list[str]:
            return [*super().names(), "has-gone"]

    topic = make_topic(2)
    found = {one.name: one.partitions for one in Listing({"bootstrap.servers": kafka.bootstrap}).all()}
    assert found[topic] == 2
    assert "has-gone" not in found


def test_read_shows_its_metrics_while_it_runs(census: Census, tmp_path: Path) -> None:
    """What it has downloaded, from a real server, and what Kafka has acknowledged so far."""
    write(tmp_path / "site", 2019, "jan", Recipe(2_000))
    site, port = free_port(), free_port()
    command = [sys.executable, "-m", "http.server", str(site), "--bind", "127.0.0.1", "--directory"]
    url = {"PENSTOCK_CENSUS_URL": f"http://127.0.0.1:{site}/{{year}}/{{month}}{{yy}}pub.dat.gz"}
    shown = ("--with-metrics", "--metrics-port", str(port))
    read = ["read", "--years", "2019", "--months", "jan", "--delay", "1000", *census.topics, *shown]

    def counts() -> dict[str, float]:
        lines = get(port, "/metrics")[1].decode().splitlines()
        return {name: float(count) for name, count in (line.split() for line in lines if not line.startswith("#"))}

    with Child("site", [*command, str(tmp_path / "site")], tmp_path):
        wait_until("the site answers", lambda: get(site, "/")[0] == 200, _LIMIT_S)
        with Child("read", [*_CENSUS, *read, "--kafka", census.kafka], tmp_path, url) as reading:

            def counted(more_than: float) -> bool:
                assert reading.running, reading.tail()
                return counts().get(_CHUNKS, 0) > more_than

            wait_until("chunks are counted", lambda: counted(0), _LIMIT_S)
            first = counts()
            assert first["kafka_scale_downloaded_gzips"] == 1
            wait_until("more are", lambda: counted(first[_CHUNKS]), _LIMIT_S)
    assert get(port, "/metrics")[0] == 0  # they end with the command


def test_read_without_kafka_is_not_ready(tmp_path: Path) -> None:
    file = write(tmp_path, 2019, "jan", Recipe(3)).path
    command = [*_CENSUS, "read", "--years", "2019", "--from-file", str(file)]
    command += ["--kafka", f"127.0.0.1:{free_port()}"]
    done = run(command, os.environ, _LIMIT_S)
    assert done.returncode == 3
    assert "penstock kafka up" in done.stderr


def test_junk_is_reported_and_changes_no_total(census: Census, tmp_path: Path) -> None:
    """In both topics; then a restart of the totals; then their topic is removed under them."""
    file = write(tmp_path, 2019, "jan", Recipe(1_001, 3, 0.01, 0.01, 0.01)).path
    census.read(file)
    census.put(census.compute, b"junk", b"junk")
    census.put(census.compute, None, None)
    plain = count_files([(2019, file)])
    metrics_port = free_port()
    with (
        census.start_compute() as compute,
        census.start_results("--with-metrics", "--metrics-port", str(metrics_port)) as results,
    ):
        found = census.wait(
            "all is counted", lambda now: now["chunks"] == 101 and len(now["refused"]) == 2, compute, results
        )
        census.put(census.results, b"junk", b"junk")
        census.put(census.results, None, None)
        found = census.wait("the junk is noticed", lambda now: now["unreadable"] == 2, compute, results)
        wait_until(
            "the metric counts",
            lambda: b"kafka_scale_result_messages_read 105.0" in get(metrics_port, "/metrics")[1],
            20,
        )
        assert get(census.port, "/readyz")[0] == 200
        assert json.loads(get(census.port, "/results")[1])["2019"]["1"]["count"] == plain.years[2019][1]
        assert compute.terminate() == 0
        assert results.terminate() == 0
    assert same(plain.years, {int(year): {int(c): n for c, n in one.items()} for year, one in found["years"].items()})
    assert {name: count for name, count in found["problems"].items() if count} == plain.problems
    assert (found["lines"], found["complete"], found["repeats"]) == (1_001, False, 0)
    with census.start_results() as results:
        again = census.wait("totals are back", lambda now: True, results)
        assert again == found
        census.run("rmtopics", "--topic", census.results, "--force")
        assert results.wait(180) == 1
        assert "no topic" in results.tail()
