"""Measures time and memory of the topology: `python -m benchmarks.analytics_topology [--edges N ...]`.

Each size runs in a process of its own: made-up contract and traffic -> facts, walks, findings -> page and JSON. One
JSON line for each. Making the contract is not counted; its memory is reported separately.

    --fleet   nearly all edges come from sources: 2,000 of them send to every channel; adding them up counts
    --spark   GraphFrames walks, and with --fleet Spark adds up; needs the jars of GraphFrames (PENSTOCK_SPARK_JARS)
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from analytics.spark.session import SparkOptions, spark_session
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import Engine
from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import Inputs, State, Traffic
from analytics.topology.model.sums import Summing, Sums
from app.operations.spark_jars import jar_places
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.traffic.counts import NAMES, Counts, column
from knative.traffic.delta import ACCEPTED, Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (100_000, 1_000_000)
NOW_S = 1_790_000_000.0
_PER_SUBSCRIPTION = 3.25  #: edges: subscribes, delivers, dead-letters, a quarter has a reply
_SUBSCRIPTIONS_PER_CHANNEL = 5
_NAMESPACES = 50
_SOURCES = 2_000  #: of a fleet
_BATCH = 1_000_000  #: pairs


def inputs_of(edges: int, seed: int = 1) -> Inputs:
    """Builds a system of about this many edges: chains of channels by replies, loops, shared subscribers, all kinds."""
    chance = random.Random(seed)
    count = int(edges / (_PER_SUBSCRIPTION + 2.0 / _SUBSCRIPTIONS_PER_CHANNEL))
    channels = [_channel(number) for number in range(max(2, count // _SUBSCRIPTIONS_PER_CHANNEL))]
    subscriptions = [_subscription(number, channels, chance) for number in range(count)]
    ready = State("True", lag=0)
    summing = Summing()
    sent: dict[str, int] = {}
    for number, delta in enumerate(_deltas(channels, chance)):
        summing.delta(replace(delta, number=number))
        sent[delta.channel] = sent.get(delta.channel, 0) + delta.counts.events
    accepted, arrivals = summing.sums()
    return Inputs(
        instance="bench",
        now=NOW_S,
        channels=channels,
        subscriptions=subscriptions,
        states={subscription.uid: ready for subscription in subscriptions},
        traffic=[*accepted, *_settled(subscriptions, sent)],
        arrivals=arrivals,
        window=Window(NOW_S - 600, NOW_S),
        tier=Tier.DELTAS,
        workers=3,
    )


def _channel(number: int) -> Channel:
    namespace, name = f"team-{number % _NAMESPACES}", f"channel-{number}"
    topic = f"knative-messaging-kafka.{namespace}.{name}"
    host = f"{name}-kn-channel.{namespace}.svc.cluster.local"
    return Channel(f"c-{number}", 1, namespace, name, topic, f"{topic}.dlq", 4, hosts=(host,))


def _subscription(number: int, channels: list[Channel], chance: random.Random) -> Subscription:
    of = channels[number % len(channels)]
    reply = None
    if chance.random() < 0.25:  # mostly onwards, so that chains grow; one of 500 goes back
        step = chance.randrange(1, 50) * (-1 if chance.random() < 0.002 else 1)
        target = channels[min(len(channels) - 1, max(0, number % len(channels) + step))]
        reply = Addressable(f"http://{target.hosts[0]}")
    shared = chance.random() < 0.1
    uri = f"http://shared-{chance.randrange(len(channels))}.example" if shared else f"http://s-{number}.example"
    return Subscription(
        uid=f"s-{number}",
        generation=1,
        namespace=of.namespace,
        name=f"s-{number}",
        channel_uid=of.uid,
        channel=of.name,
        topic=of.topic,
        dlq_topic=of.dlq_topic,
        partitions=4,
        group=f"kafka.s-{number}",
        subscriber=Addressable(uri),
        reply=reply,
        delivery=DeliverySpec(dead_letter_sink=Addressable("http://dead.example") if number % 20 == 0 else None),
        exhausted=OnRetriesExhausted.IGNORE if chance.random() < 0.002 else OnRetriesExhausted.DEAD_LETTER,
    )


def _deltas(channels: list[Channel], chance: random.Random) -> Iterator[Delta]:
    for number, channel in enumerate(channels):
        for source in range(2):
            events = chance.choice((0, 100, 10_000))
            name = f"/source/{(number + source) % 1_500}"
            counts = Counts(events, 1024 * events)
            yield Delta("w", 0, int(NOW_S), ACCEPTED, channel.namespace, channel.name, source=name, counts=counts)


def _settled(subscriptions: list[Subscription], sent: dict[str, int]) -> Iterator[Traffic]:
    for subscription in subscriptions:
        events = sent[subscription.channel]
        yield Traffic(
            False,
            subscription.namespace,
            subscription.channel,
            subscription.name,
            counts=Counts(events, 1024 * events, delivered=events),
            latency={40: events} if events else {},
        )


def fleet_of(pairs: int, contract: Inputs, spark: SparkSession | None) -> Inputs:
    """Builds this many pairs of a source and a channel of the contract."""
    sums = _by_spark(spark, pairs, contract) if spark is not None else _by_tables(pairs, contract)
    settled = [traffic for traffic in contract.traffic if not traffic.accepted]
    return replace(contract, traffic=[*sums[0], *settled], arrivals=sums[1])


def _by_tables(pairs: int, contract: Inputs) -> Sums:
    summing = Summing()
    namespaces = pa.array([channel.namespace for channel in contract.channels])
    names = pa.array([channel.name for channel in contract.channels])
    sources = pa.array([f"/fleet/vehicle/{number}" for number in range(_SOURCES)])
    types = pa.array([f"fleet.vehicle.{number}" for number in range(3)])
    for begin in range(0, pairs, _BATCH):
        number = np.arange(begin, min(begin + _BATCH, pairs))
        place = number // _SOURCES % len(names)
        events = 1 + number % 97
        columns = (namespaces.take(pa.array(place)), names.take(pa.array(place)), sources.take(number % _SOURCES))
        table = pa.table(
            [*columns, types.take(number % len(types)), events, 1024 * events],
            ["namespace", "channel", "source", "type", "events", "bytes"],
        )
        summing.came(table)
    return summing.sums()


def _by_spark(spark: SparkSession, pairs: int, contract: Inputs) -> Sums:
    from pyspark.sql import functions as f

    from analytics.topology.spark.sums import fetch
    from analytics.topology.spark.traffic import sums_of

    place = f"id div {_SOURCES} % {len(contract.channels)}"
    counts = {"events": "1 + id % 97", "bytes": "1024 * (1 + id % 97)"}
    rows = spark.range(pairs).select(
        f.expr("double(0) as first"),
        f.expr("double(1) as last"),
        f.expr("'accepted' as kind"),
        f.expr(f"concat('team-', {place} % {_NAMESPACES}) as namespace"),
        f.expr(f"concat('channel-', {place}) as channel"),
        f.expr("'' as subscription"),
        f.expr("concat('fleet.vehicle.', id % 3) as type"),
        f.expr(f"concat('/fleet/vehicle/', id % {_SOURCES}) as source"),
        *(f.expr(f"bigint({counts.get(name, 0)}) as {column(name)}") for name in NAMES),
        f.expr("bigint(0) as late"),
        f.expr("cast(array() as array<struct<bucket:int,count:bigint>>) as latency"),
    )
    return fetch(sums_of(rows), lambda span: span or Window())[0]


def measure(edges: int, fleet: bool, spark: SparkSession | None, engine: Engine) -> dict[str, object]:
    """Measures one size, in this process."""
    from analytics.topology.build import build
    from analytics.topology.model.document import to_json
    from analytics.topology.model.facts import facts_of
    from analytics.topology.report import render

    # A fleet's contract: a channel for each 2,000 edges, and five subscriptions for each of these.
    inputs = inputs_of(edges // _SOURCES * 18 if fleet else edges)
    inputs_mib = _peak_mib()
    began, cpu = time.perf_counter(), time.process_time()
    if fleet:
        inputs = fleet_of(edges, inputs, spark)
    added = time.perf_counter()
    facts = facts_of(inputs)
    topology = build(inputs, engine, facts)
    built = time.perf_counter()
    page = render(topology)
    rendered = time.perf_counter()
    written = to_json(topology)
    return {
        "edges": facts.links_count(),
        "subscriptions": len(inputs.subscriptions),
        "shown": {"vertices": len(topology.vertices), "edges": len(topology.edges)},
        "findings": len(topology.findings),
        "engine": topology.engine,
        "add_up_s": round(added - began, 2),
        "build_s": round(built - added, 2),
        "page_s": round(rendered - built, 2),
        "json_s": round(time.perf_counter() - rendered, 2),
        "total_s": round(time.perf_counter() - began, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "peak_mib": _peak_mib(),
        "inputs_mib": inputs_mib,
        "page_mib": round(len(page) / 2**20, 1),
        "json_mib": round(len(written) / 2**20, 1),
    }


def measure_on_spark(edges: int, fleet: bool, memory: str, master: str) -> dict[str, object]:
    """Measures the same with GraphFrames, and the memory and CPU time of Spark's process."""
    from analytics.topology.engines.graphframes import GraphFramesEngine

    options = SparkOptions("bench", master, jars=tuple(jar_places()), driver_memory=memory, rounds=True)
    with spark_session(options) as spark:
        figures = measure(edges, fleet, spark, GraphFramesEngine(spark))
        gateway: Any = spark.sparkContext._gateway
        process = Path("/proc") / str(gateway.proc.pid)
        peak = re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())
        ticks = (process / "stat").read_text().rpartition(")")[2].split()
        return {
            **figures,
            "jvm_mib": int(peak[1]) // 1024 if peak else None,
            "jvm_cpu_s": (int(ticks[11]) + int(ticks[12])) / 100,
        }


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Measures each size in a fresh process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_topology", description=__doc__)
    parser.add_argument("--edges", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--fleet", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--memory", default="2g", help="of Spark's driver")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    for edges in given.edges:
        if not given.here:
            command = [sys.executable, *sys.orig_argv[1:], "--here", "--edges", str(edges)]
            subprocess.run(command, check=True)
        elif given.spark:
            print(json.dumps(measure_on_spark(edges, given.fleet, given.memory, given.master)), flush=True)
        else:
            print(json.dumps(measure(edges, given.fleet, None, LocalEngine())), flush=True)


if __name__ == "__main__":
    main()
