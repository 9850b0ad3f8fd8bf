"""Measures time and memory of the topology: `python -m benchmarks.analytics_topology [--edges N ...]`.

Each size runs in a process of its own: made-up contract and traffic -> facts, walks, findings (local engine) -> page
and JSON. One JSON line for each. Generating the inputs is not counted; their memory is reported separately.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import Inputs, State, Traffic
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.traffic.counts import Counts

SIZES = (100_000, 1_000_000)
NOW_S = 1_790_000_000.0
_PER_SUBSCRIPTION = 3.25  #: edges: subscribes, delivers, dead-letters, a quarter has a reply
_SUBSCRIPTIONS_PER_CHANNEL = 5
_NAMESPACES = 50


def inputs_of(edges: int, seed: int = 1) -> Inputs:
    """A system of about so many edges: chains of channels by replies, some loops, shared subscribers, all kinds."""
    chance = random.Random(seed)
    count = int(edges / (_PER_SUBSCRIPTION + 2.0 / _SUBSCRIPTIONS_PER_CHANNEL))
    channels = [_channel(number) for number in range(max(2, count // _SUBSCRIPTIONS_PER_CHANNEL))]
    subscriptions = [_subscription(number, channels, chance) for number in range(count)]
    ready = State("True", lag=0)
    return Inputs(
        instance="bench",
        now=NOW_S,
        channels=channels,
        subscriptions=subscriptions,
        states={one.uid: ready for one in subscriptions},
        traffic=list(_traffic(channels, subscriptions, chance)),
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


def _traffic(channels: list[Channel], subscriptions: list[Subscription], chance: random.Random) -> Iterator[Traffic]:
    sent: dict[str, int] = {}
    for number, one in enumerate(channels):
        for source in range(2):
            events = chance.choice((0, 100, 10_000))
            sent[one.uid] = sent.get(one.uid, 0) + events
            name = f"/source/{(number + source) % 1_500}"
            yield Traffic(True, one.namespace, one.name, source=name, counts=Counts(events, 1024 * events))
    for subscription in subscriptions:
        events = sent[subscription.channel_uid]
        yield Traffic(
            False,
            subscription.namespace,
            subscription.channel,
            subscription.name,
            counts=Counts(events, 1024 * events, delivered=events),
            latency={40: events} if events else {},
        )


def measure(edges: int) -> dict[str, object]:
    """One size, in this process."""
    from analytics.topology.build import build
    from analytics.topology.engines.local import LocalEngine
    from analytics.topology.model.document import to_json
    from analytics.topology.report import render

    inputs = inputs_of(edges)
    inputs_mib = _peak_mib()
    began = time.perf_counter()
    topology = build(inputs, LocalEngine())
    built = time.perf_counter()
    page = render(topology)
    rendered = time.perf_counter()
    written = to_json(topology)
    return {
        "edges": len(topology.edges),
        "vertices": len(topology.vertices),
        "findings": len(topology.findings),
        "build_s": round(built - began, 2),
        "page_s": round(rendered - built, 2),
        "json_s": round(time.perf_counter() - rendered, 2),
        "total_s": round(time.perf_counter() - began, 2),
        "peak_mib": _peak_mib(),
        "inputs_mib": inputs_mib,
        "page_mib": round(len(page) / 2**20, 1),
        "json_mib": round(len(written) / 2**20, 1),
    }


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Each size in a fresh process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_topology", description=__doc__)
    parser.add_argument("--edges", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    for edges in given.edges:
        if given.here:
            print(json.dumps(measure(edges)), flush=True)
            continue
        command = [sys.executable, "-m", "benchmarks.analytics_topology", "--here", "--edges", str(edges)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
