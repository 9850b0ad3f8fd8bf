"""How far `job topology --engine graphframes` goes: `python -m benchmarks.analytics_graphframes [--edges N]`.

A made-up contract (JSON, as the contract's topic has it) and traffic are written to Parquet by Spark and processed
from there as the job does from Kafka: facts, graph, questions, findings. One JSON line: seconds of each part, rows
fetched to this process, peak memory of it and of Spark's JVM. Needs GraphFrames' jars (PENSTOCK_SPARK_JARS).

The world: blocks of 40 channels with 5 subscriptions each. A quarter reply to a later channel, one in 100 of
them in the next block, one in 500 backwards; a tenth share a subscriber with others of their block.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.spark.session import SparkOptions, spark_session
from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.spark import report
from analytics.topology.spark.contract import contract_frames, with_uid
from analytics.topology.spark.facts import fact_frames
from analytics.topology.spark.queries import SparkAnswers
from analytics.topology.spark.selection import only
from app.operations.contract_snapshot import contract_of
from app.operations.spark_jars import jar_places
from knative.contract.records import Channel, Subscription
from tests.support.received import received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_S = 1_790_000_000.0
_PER_SUBSCRIPTION = 3.65  #: edges: subscribes, delivers, dead-letters, a quarter has a reply; two sources a channel
_SUBSCRIPTIONS, _BLOCK = 5, 40  #: of a channel; channels
_QUESTIONS = ("islands", "live_loops", "dead_loops", "double_deliveries", "reach", "influence", "articulation_points")

_CHANNEL = """
    concat('channel-', {0}) name, concat('team-', {0} div 40) namespace,
    concat('knative-messaging-kafka.team-', {0} div 40, '.channel-', {0}) topic
"""
_CHANNELS = f"""
    select to_json(named_struct('schema', 1, 'what', 'channel', 'channel', named_struct(
        'uid', concat('c-', id), 'generation', 1, 'namespace', namespace, 'name', name, 'topic', topic,
        'dlq_topic', concat(topic, '.dlq'), 'partitions', 4,
        'hosts', array(concat(name, '-kn-channel.', namespace, '.svc.cluster.local')), 'kind', 'KafkaChannel',
        'spec_hash', '', 'keep_topic', false))) value
    from (select id, {_CHANNEL.format("id")} from range({{channels}}))
"""
_SUBSCRIPTION_ROWS = f"""
    select *, {_CHANNEL.format("of")}, case when chance < 0.25 then least({{channels}} - 1, greatest(0, of + case
        when way = 0 then -(1 + far) when way < 6 then 40 else least(1 + far, 39 - of % 40) end)) end replies_to
    from (select id, id % {{channels}} of, rand(1) chance, rand(2) shares, int(rand(3) * 500) way, int(rand(4) * 5) far
        from range({{subscriptions}}))
"""
_SUBSCRIPTIONS_JSON = """
    select to_json(named_struct('schema', 1, 'what', 'subscription', 'subscription', named_struct(
        'uid', concat('s-', id), 'generation', 1, 'namespace', namespace, 'name', concat('s-', id),
        'channel_uid', concat('c-', of), 'channel', name, 'topic', topic, 'dlq_topic', concat(topic, '.dlq'),
        'partitions', 4, 'group', concat('kafka.s-', id),
        'subscriber', named_struct('uri', if(shares < 0.1, concat('http://shared-', of div 40, '-', id % 7, '.example'),
            concat('http://s-', id, '.example'))),
        'reply', if(replies_to is null, null, named_struct('uri', concat('http://channel-', replies_to,
            '-kn-channel.team-', replies_to div 40, '.svc.cluster.local'))),
        'delivery', named_struct('retry', 3, 'backoff_policy', 'exponential', 'backoff_delay_s', 0.2,
            'timeout_s', 300.0, 'retry_after_max_s', null, 'dead_letter_sink',
            if(id % 20 = 0, named_struct('uri', concat('http://dead-', of div 40, '.example')), null)),
        'order', 'ordered', 'concurrency', 100, 'exhausted', if(id % 499 = 0, 'ignore', 'dead-letter'),
        'kind', 'Subscription', 'spec_hash', '', 'topic_id', '')), map('ignoreNullFields', 'false')) value
    from subscription_rows
"""
_TRAFFIC = f"""
    select true accepted, namespace, name channel, '' subscription, concat('/source/', (id + nth) % 1500) source,
        bigint(100 * (1 + id % 7)) events, bigint(102400) bytes, bigint(0) delivered, bigint(0) retried, bigint(0) dead,
        bigint(0) filtered, bigint(0) ignored, map_from_arrays(array(), array()) latency
    from (select id, {_CHANNEL.format("id")}, explode(array(0, 1)) nth from range({{channels}}))
    union all
    select false, namespace, name, concat('s-', id), '', bigint(200 * (1 + of % 7)), bigint(204800),
        bigint(200 * (1 + of % 7)), bigint(0), bigint(0), bigint(0), bigint(0),
        map_from_arrays(array(40), array(bigint(1)))
    from subscription_rows
"""


def make(spark: SparkSession, folder: Path, edges: int) -> None:
    """The world, as files."""
    subscriptions = int(edges / _PER_SUBSCRIPTION)
    channels = max(_BLOCK, subscriptions // _SUBSCRIPTIONS)
    sizes = {"channels": channels, "subscriptions": subscriptions}
    spark.sql(_SUBSCRIPTION_ROWS.format(**sizes)).createOrReplaceTempView("subscription_rows")
    contract = spark.sql(_CHANNELS.format(**sizes)).unionAll(spark.sql(_SUBSCRIPTIONS_JSON))
    contract.write.parquet(str(folder / "contract"))
    spark.sql(_TRAFFIC.format(**sizes)).write.parquet(str(folder / "traffic"))
    served = "concat('s-', id) uid", "bigint(1) served_generation", "4 served_partitions", "bigint(0) lag"
    spark.range(subscriptions).selectExpr(*served).write.parquet(str(folder / "served"))


def measure(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """The report, and what each part of it took."""
    records = spark.read.parquet(str(folder / "contract"))
    took: dict[str, float] = {}
    inputs = Inputs("bench", NOW_S, (), (), window=Window(NOW_S - 600, NOW_S), tier=Tier.DELTAS, workers=3)

    def resources(
        uids: Sequence[str] | None,
    ) -> tuple[Sequence[Channel], Sequence[Subscription], Mapping[str, State]]:
        chosen = records if uids is None else only(spark, with_uid(records), "uid", set(uids)).select("value")
        found = contract_of("bench", [row[0].encode() for row in chosen.collect()], [])
        return found.channels, found.subscriptions, {one.uid: State("True", lag=0) for one in found.subscriptions}

    with _timed(SparkAnswers, _QUESTIONS, took), _timed(report, ("map_frames",), took), received() as rows:
        began = time.monotonic()
        traffic, served = (spark.read.parquet(str(folder / name)) for name in ("traffic", "served"))
        facts = fact_frames(600.0, contract_frames(records), traffic, served)
        edges = facts.links_count()
        took["facts"] = time.monotonic() - began
        found = report.spark_report(spark, inputs, facts, resources)
        took["total"] = time.monotonic() - began
    rules: dict[str, int] = {}
    for one in found.findings:
        rules[one.rule] = rules.get(one.rule, 0) + 1
    return {
        "edges": edges,
        "seconds": {name: round(value, 1) for name, value in took.items()},
        "rows": {"all": rows.rows, "not numbers alone": rows.other},
        "shown": {"vertices": len(found.vertices), "edges": len(found.edges)},
        "findings": rules,
    }


@contextmanager
def _timed(of: Any, names: Sequence[str], took: dict[str, float]) -> Iterator[None]:
    """What each of these functions takes, added up."""

    def timed(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            began = time.monotonic()
            try:
                return ask(*given)
            finally:
                took[name] = took.get(name, 0.0) + time.monotonic() - began
                print(f"{name}: {took[name]:.1f} s", file=sys.stderr, flush=True)

        return asked

    before = {name: getattr(of, name) for name in names}
    for name, ask in before.items():
        setattr(of, name, timed(name, ask))
    try:
        yield
    finally:
        for name, ask in before.items():
            setattr(of, name, ask)


def _jvm_mib(spark: SparkSession) -> int:
    """The most memory that Spark's process had."""
    gateway: Any = spark.sparkContext._gateway
    status = Path(f"/proc/{gateway.proc.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def main() -> None:
    """One size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_graphframes", description=__doc__)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    options = SparkOptions(
        app_name="graphframes", master=given.master, jars=tuple(jar_places()), driver_memory=given.memory, rounds=True
    )
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name, spark_session(options) as spark:
        made = time.monotonic()
        make(spark, Path(name), given.edges)
        made = time.monotonic() - made
        found = measure(spark, Path(name))
        here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({**found, "made_s": round(made, 1), "here_mib": here, "jvm_mib": _jvm_mib(spark)}), flush=True)


if __name__ == "__main__":
    main()
