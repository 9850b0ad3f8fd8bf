"""`python -m benchmarks.analytics_traffic`: the traffic job over records of 1 KiB, compared with a plain consumer.

    records/s   wall, from the first batch's beginning to the last one's end (Spark has started by then)
    CPU us      of the job's process and its JVM together, per record, with and without the start of Spark
    warm        both, for the batches after the first: without one-time costs (loading and compiling classes)
    bare        CPU us per record of a Spark that reads the same batches after it, and counts headers and bytes only
    RSS         of the JVM after each batch; it should stay flat

The plain consumer (librdkafka, one thread) counts the same groups from the same topics: the oracle and the ceiling.
Starts its own Kafka. Prints the targets beside the figures.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.local.kafka import EmbeddedKafka
from tests.support.proc import tree
from tests.support.processes import REPOSITORY

TOPIC = "bench.traffic"
BODY = os.urandom(512).hex().encode()  # 1 KiB
TYPES, SOURCES = 5, 20
TARGET_PER_S, TARGET_US = 35_000, 45
_TICKS = os.sysconf("SC_CLK_TCK")


def fill(bootstrap: str, records: int, partitions: int, topic: str = TOPIC) -> None:
    """Fills the topic with records of the last half hour."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # whose name keeps it alive until the answer has come
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "none",
            "queue.buffering.max.kbytes": 65536,
        }
    )
    begin_ms = int((time.time() - 1800) * 1000)
    for number in range(records):
        headers: list[tuple[str, Any]] = [
            ("ce_specversion", b"1.0"), ("ce_id", b"%d" % number), ("ce_type", b"order.%d" % (number % TYPES)),
            ("ce_source", b"/shop/%d" % (number % SOURCES)), ("content-type", b"application/json"),
        ]  # fmt: skip
        at_ms = begin_ms + number * 1_800_000 // records
        while True:
            try:
                producer.produce(topic, BODY, None, number % partitions, headers=headers, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 1000:
            producer.poll(0)
    assert producer.flush(120) == 0


def plain(
    bootstrap: str, records: int, partitions: int
) -> tuple[collections.Counter[tuple[int, str, str]], float, float]:
    """Returns (groups, records/s, CPU us per record) of one consumer in one thread."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "plain", "queued.max.messages.kbytes": 16384, "check.crcs": False}
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(partitions)])
    groups: collections.Counter[tuple[int, str, str]] = collections.Counter()
    began, cpu, left = time.monotonic(), time.process_time(), records
    while left:
        for message in consumer.consume(1000, 1.0):
            headers: dict[str, bytes] = dict(message.headers() or [])  # type: ignore[arg-type]
            minute = message.timestamp()[1] // 60_000 * 60
            groups[minute, headers["ce_type"].decode(), headers["ce_source"].decode()] += 1
            left -= 1
    took, used = time.monotonic() - began, time.process_time() - cpu
    consumer.close()
    return groups, records / took, used / records * 1e6


def job(bootstrap: str, folder: Path, batch: int, master: str, topic: str = TOPIC) -> None:
    """Runs in the child: one run, its figures as one JSON line."""
    from analytics.spark.session import SparkOptions, spark_session
    from analytics.traffic.job import TrafficJob, TrafficPlan
    from app.operations.spark_jars import jar_places
    from app.operations.traffic_topics import KafkaTopics

    options = SparkOptions(master=master, jars=tuple(jar_places(root=REPOSITORY / ".penstock" / "spark")))
    with spark_session(options) as spark:
        pids = list(tree(os.getpid()))
        start_cpu = sum(map(cpu_s, pids))
        rss: list[int] = []
        marks: list[tuple[int, float, float]] = []  # records of a batch, the moment of its end, CPU until then

        def on_batch(_run: int, counters: Mapping[str, int], _seconds: float) -> None:
            rss.append(sum(map(rss_mb, pids)))
            marks.append((counters["records.records"], time.monotonic(), sum(map(cpu_s, pids))))

        client = {"bootstrap.servers": bootstrap}
        owners = {topic: ("bench", "traffic")}
        plan = TrafficPlan(client, owners, "", folder, KafkaTopics(client).describe, records_max=batch)
        summary = TrafficJob(spark, plan, on_batch).run()
        used = sum(map(cpu_s, pids))
        bare_us = _bare(spark, client, topic, [records for records, _, _ in marks], pids)
        (_, warm_at, warm_cpu), (_, end_at, end_cpu) = marks[0], marks[-1]
        warm = sum(records for records, _, _ in marks[1:])
        print(
            json.dumps(
                {
                    "records": summary.records,
                    "per_s": summary.records / summary.seconds,
                    "us": (used - start_cpu) / summary.records * 1e6,
                    "warm_per_s": warm / (end_at - warm_at) if warm else None,
                    "warm_us": (end_cpu - warm_cpu) / warm * 1e6 if warm else None,
                    "bare_us": bare_us,
                    "us_with_start": used / summary.records * 1e6,
                    "rss_mb": rss,
                }
            )
        )


def _bare(spark: Any, client: Mapping[str, Any], topic: str, batches: list[int], pids: list[int]) -> float | None:
    """Returns CPU us per record of reading as many records as the batches after the first had, in as many reads."""
    from pyspark.sql import functions as f

    from analytics.spark.kafka_source import body_bytes, read_ranges
    from analytics.traffic.topic_identity import Offsets, positions, to_read
    from app.operations.traffic_topics import KafkaTopics

    now, count, began = KafkaTopics(client).describe([topic], True), 0, 0.0
    done: Offsets = {}
    for number, records in enumerate(batches):
        if number == 1:
            began = sum(map(cpu_s, pids))
        ranges = to_read(now, done, records)
        read = read_ranges(spark, client, ranges).select(
            f.size("headers").alias("headers"), body_bytes().alias("bytes")
        )
        rows = read.agg(f.count(f.lit(1)), f.sum("headers"), f.sum("bytes")).collect()[0][0]
        count += rows if number else 0
        done = positions(done, ranges)
    return (sum(map(cpu_s, pids)) - began) / count * 1e6 if count else None


def cpu_s(pid: int) -> float:
    """Returns user and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mb(pid: int) -> int:
    """Returns resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def main() -> None:
    """Fill, count plainly, count with Spark, compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_traffic", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--topic", default=TOPIC, help=argparse.SUPPRESS)
    parser.add_argument("--job", nargs=2, metavar=("KAFKA", "FOLDER"), help=argparse.SUPPRESS)
    wish = parser.parse_args()
    if wish.job:
        job(wish.job[0], Path(wish.job[1]), wish.batch, wish.master, wish.topic)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        with EmbeddedKafka(root / "kafka", port=0, heap="512m", jars_root=REPOSITORY / ".penstock" / "kafka") as kafka:
            fill(kafka.bootstrap, wish.records, wish.partitions)
            groups, plain_per_s, plain_us = plain(kafka.bootstrap, wish.records, wish.partitions)
            command = [sys.executable, "-m", "benchmarks.analytics_traffic", "--batch", str(wish.batch)]
            command += ["--master", wish.master, "--job", kafka.bootstrap, str(root / "tables")]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY)
            figures = json.loads(done.stdout.splitlines()[-1])
        from analytics.traffic.read import read_windows

        counted = {
            (window.start, window.type, window.source): window.counts.events for window in read_windows(root / "tables")
        }
    print(f"{wish.records:,} records of {len(BODY)} bytes, {wish.partitions} partitions, load {os.getloadavg()[0]:.1f}")
    print(f"plain consumer  {plain_per_s:>9,.0f}/s  {plain_us:5.1f} us CPU per record")
    print(
        f"traffic job     {figures['per_s']:>9,.0f}/s  {figures['us']:5.1f} us CPU per record "
        f"({figures['us_with_start']:.1f} with the start); targets {TARGET_PER_S:,}/s, {TARGET_US} us"
    )
    if figures["bare_us"] is not None:
        print(f"bare read       {figures['bare_us']:.1f} us; job after its first batch {figures['warm_us']:.1f} us CPU")
    print(f"memory          {', '.join(map(str, figures['rss_mb']))} MB after each batch")
    print(
        f"sums            {'equal, group by group' if counted == dict(groups) else 'DIFFERENT'} ({len(groups)} groups)"
    )


if __name__ == "__main__":
    main()
