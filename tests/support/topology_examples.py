"""Topologies to render and to read: a small one with everything in it, and one of any size.

Plain documents with made-up numbers.
"""

from __future__ import annotations

import random
from dataclasses import replace

from analytics.topology.model.document import (
    Edge,
    Finding,
    Flow,
    Health,
    Island,
    Kind,
    Rank,
    Ranking,
    Reach,
    Severity,
    Tier,
    Topology,
    Vertex,
    Window,
    edge_id,
)
from analytics.topology.model.totals import sums

NOW_S = 1_790_000_000.0
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'{{7*7}}"  #: a source may be any text


def edge(kind: Flow, source: str, target: str, rate: float | None = None, health: Health = Health.OK) -> Edge:
    """An edge with numbers that fit its rate over a minute."""
    if rate is None:
        return Edge(edge_id(kind, source, target), source, target, kind, health)
    return Edge(
        edge_id(kind, source, target),
        source,
        target,
        kind,
        Health.IDLE if not rate else health,
        events=round(rate * 60),
        rate=rate,
        bytes_rate=rate * 1024,
        latency_p50_s=0.004 if kind is Flow.DELIVERS and rate else None,
        latency_p99_s=0.120 if kind is Flow.DELIVERS and rate else None,
        failures=3 if health is Health.DEGRADED else 0,
        lag=12 if kind is Flow.SUBSCRIBES else None,
    )


SHOP, BILLS = "channel:shop/orders", "channel:shop/bills"


def _vertices() -> list[Vertex]:
    return [
        Vertex("source:/web", Kind.SOURCE, "", "/web", "/web", Health.OK, rate=20.0, bytes_rate=20480.0, island=1),
        Vertex(f"source:{HOSTILE}", Kind.SOURCE, "", HOSTILE, HOSTILE, Health.OK, rate=0.1, island=1),
        _channel(SHOP, "shop", "orders", 22.5),
        _channel(BILLS, "shop", "bills", 2.5),
        _channel("channel:attic/forgotten", "attic", "forgotten", 0.0, island=2),
        Vertex("broker:shop/main", Kind.BROKER, "shop", "main", "shop/main", Health.UNKNOWN, "no worker", island=1),
        Vertex(
            "subscription:shop/billing",
            Kind.SUBSCRIPTION,
            "shop",
            "billing",
            "shop/billing",
            Health.OK,
            lag=12,
            island=1,
        ),
        Vertex(
            "subscription:shop/echo",
            Kind.SUBSCRIPTION,
            "shop",
            "echo",
            "shop/echo",
            Health.DEGRADED,
            "http://echo.shop answered 503",
            lag=4000,
            island=1,
        ),
        Vertex("trigger:shop/audit", Kind.TRIGGER, "shop", "audit", "shop/audit", island=1),
        _uri("http://billing.shop", Kind.SUBSCRIBER, Health.OK, 22.4),
        _uri("http://echo.shop", Kind.SUBSCRIBER, Health.DEGRADED, 2.5),
        _uri("http://graveyard.shop/dead", Kind.DEAD_LETTER_SINK, Health.OK, 0.1),
        Vertex("dlq:shop/orders", Kind.DLQ, "shop", "orders", "shop/orders.dlq", Health.DEGRADED, rate=0.1, island=1),
    ]


def _edges() -> list[Edge]:
    return [
        edge(Flow.PUBLISHES, "source:/web", SHOP, 20.0),
        edge(Flow.PUBLISHES, f"source:{HOSTILE}", SHOP, 0.1),
        edge(Flow.SUBSCRIBES, SHOP, "subscription:shop/billing", 22.5),
        edge(Flow.DELIVERS, "subscription:shop/billing", "uri:http://billing.shop", 22.4),
        edge(Flow.REPLIES, "subscription:shop/billing", BILLS, 2.5),
        edge(Flow.DEAD_LETTERS, "subscription:shop/billing", "uri:http://graveyard.shop/dead", 0.1),
        edge(Flow.SUBSCRIBES, BILLS, "subscription:shop/echo", 2.5, Health.DEGRADED),
        edge(Flow.DELIVERS, "subscription:shop/echo", "uri:http://echo.shop", 2.5, Health.DEGRADED),
        edge(Flow.REPLIES, "subscription:shop/echo", SHOP, 2.4),
        edge(Flow.DEAD_LETTERS, "subscription:shop/echo", "dlq:shop/orders", 0.1, Health.DEGRADED),
        edge(Flow.SUBSCRIBES, "broker:shop/main", "trigger:shop/audit"),
        edge(Flow.DELIVERS, "trigger:shop/audit", "uri:http://billing.shop"),
    ]


def _findings(edges: list[Edge]) -> tuple[Finding, ...]:
    loop = (SHOP, "subscription:shop/billing", BILLS, "subscription:shop/echo")
    return (
        Finding(
            "reply-loop:channel:shop/bills",
            "reply-loop",
            Severity.CRITICAL,
            "Events run in a circle: shop/orders, shop/bills",
            loop,
            (
                "shop/orders → shop/billing → shop/bills → shop/echo → shop/orders",
                "In the window 2.4 events/s went round.",
            ),
            "Let one of the replies go elsewhere.",
            edges=tuple(one.id for one in edges if one.kind in (Flow.SUBSCRIBES, Flow.REPLIES) and one.rate),
        ),
        Finding(
            "orphan-unsent:channel:attic/forgotten",
            "orphan-unsent",
            Severity.INFO,
            "attic/forgotten receives no events",
            ("channel:attic/forgotten",),
            ("No event was accepted in the window of 60 s.",),
            "Delete the channel if it is unused.",
        ),
    )


def with_totals(topology: Topology) -> Topology:
    """The same with the sums over what is in it."""
    return replace(topology, totals=sums(topology.vertices, topology.edges, topology.window.seconds))


def small() -> Topology:
    """Two namespaces: a reply loop, an orphan, a broker with a trigger, a hostile source name."""
    vertices, edges = _vertices(), _edges()
    return with_totals(
        Topology(
            generated_at=NOW_S,
            instance="penstock",
            namespace="",
            window=Window(NOW_S - 60, NOW_S),
            tier=Tier.DELTAS,
            engine="local",
            method=("Rates: the workers' traffic records of 60 s.", "Loops: strongly connected components."),
            vertices=tuple(sorted(vertices, key=lambda one: one.id)),
            edges=tuple(sorted(edges, key=lambda one: one.id)),
            findings=_findings(edges),
            rankings=(
                Ranking("influence", "Most influential channels", "share", (Rank(SHOP, 0.61), Rank(BILLS, 0.22))),
                Ranking("cut", "Single points of failure", "vertices cut off", (Rank(SHOP, 4.0, "carries 22.5/s"),)),
            ),
            reach=(Reach("source:/web", 9, 5, {SHOP: 1, "subscription:shop/billing": 2}),),
            islands=(
                Island(1, 12, 2, 22.6, ("broker:shop/main", BILLS, SHOP)),
                Island(2, 1, 1, 0.0, ("channel:attic/forgotten",)),
            ),
        )
    )


def large(subscriptions: int, namespaces: int = 20, seed: int = 1) -> Topology:
    """About `2.2 * subscriptions` vertices and `3 * subscriptions` edges, no findings."""
    chance = random.Random(seed)
    vertices: list[Vertex] = []
    edges: list[Edge] = []
    for number in range(max(1, subscriptions // 5)):
        namespace, name = f"team-{number % namespaces}", f"channel-{number}"
        channel = _channel(f"channel:{namespace}/{name}", namespace, name, chance.choice((0.0, 1.0, 250.0)))
        source = f"source:/{namespace}/{number}"
        vertices += [channel, Vertex(source, Kind.SOURCE, "", source[7:], source[7:], Health.OK, island=1)]
        edges.append(edge(Flow.PUBLISHES, source, channel.id, channel.rate))
    channels = [one for one in vertices if one.kind is Kind.CHANNEL]
    for number in range(subscriptions):
        channel = channels[number % len(channels)]
        health = chance.choices((Health.OK, Health.DEGRADED, Health.FAILED), (95, 4, 1))[0]
        one = f"subscription:{channel.namespace}/s-{number}"
        vertices.append(
            Vertex(one, Kind.SUBSCRIPTION, channel.namespace, f"s-{number}", one[13:], health, lag=number % 7, island=1)
        )
        vertices.append(_uri(f"http://s-{number}.{channel.namespace}", Kind.SUBSCRIBER, health, channel.rate or 0.0))
        edges.append(edge(Flow.SUBSCRIBES, channel.id, one, channel.rate, health))
        edges.append(edge(Flow.DELIVERS, one, vertices[-1].id, channel.rate, health))
        if number % 10 == 0:
            edges.append(edge(Flow.REPLIES, one, chance.choice(channels).id, 0.5))
    return with_totals(
        Topology(
            generated_at=NOW_S,
            instance="penstock",
            namespace="",
            window=Window(NOW_S - 60, NOW_S),
            tier=Tier.DELTAS,
            engine="local",
            method=("Made up.",),
            vertices=tuple(sorted(vertices, key=lambda v: v.id)),
            edges=tuple(sorted(edges, key=lambda e: e.id)),
        )
    )


def _channel(id_: str, namespace: str, name: str, rate: float, island: int = 1) -> Vertex:
    return Vertex(
        id_,
        Kind.CHANNEL,
        namespace,
        name,
        f"{namespace}/{name}",
        Health.OK if rate else Health.IDLE,
        rate=rate,
        bytes_rate=rate * 1024,
        island=island,
        detail={"topic": f"knative-messaging-kafka.{namespace}.{name}", "partitions": 4},
    )


def _uri(uri: str, kind: Kind, health: Health, rate: float) -> Vertex:
    return Vertex(f"uri:{uri}", kind, "", uri, uri, health, roles=(kind,), rate=rate, island=1)
