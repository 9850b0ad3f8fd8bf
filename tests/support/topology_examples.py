"""A small topology to render and to read, with everything in it: a plain document with made-up numbers."""

from __future__ import annotations

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


def _edge(kind: Flow, source: str, target: str, rate: float | None = None, health: Health = Health.OK) -> Edge:
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
        _edge(Flow.PUBLISHES, "source:/web", SHOP, 20.0),
        _edge(Flow.PUBLISHES, f"source:{HOSTILE}", SHOP, 0.1),
        _edge(Flow.SUBSCRIBES, SHOP, "subscription:shop/billing", 22.5),
        _edge(Flow.DELIVERS, "subscription:shop/billing", "uri:http://billing.shop", 22.4),
        _edge(Flow.REPLIES, "subscription:shop/billing", BILLS, 2.5),
        _edge(Flow.DEAD_LETTERS, "subscription:shop/billing", "uri:http://graveyard.shop/dead", 0.1),
        _edge(Flow.SUBSCRIBES, BILLS, "subscription:shop/echo", 2.5, Health.DEGRADED),
        _edge(Flow.DELIVERS, "subscription:shop/echo", "uri:http://echo.shop", 2.5, Health.DEGRADED),
        _edge(Flow.REPLIES, "subscription:shop/echo", SHOP, 2.4),
        _edge(Flow.DEAD_LETTERS, "subscription:shop/echo", "dlq:shop/orders", 0.1, Health.DEGRADED),
        _edge(Flow.SUBSCRIBES, "broker:shop/main", "trigger:shop/audit"),
        _edge(Flow.DELIVERS, "trigger:shop/audit", "uri:http://billing.shop"),
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
            edges=tuple(edge.id for edge in edges if edge.kind in (Flow.SUBSCRIBES, Flow.REPLIES) and edge.rate),
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
            vertices=tuple(sorted(vertices, key=lambda vertex: vertex.id)),
            edges=tuple(sorted(edges, key=lambda edge: edge.id)),
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
