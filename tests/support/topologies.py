"""Made-up topologies for the report page, to look at, test and measure: the quickstart, a shop, thousands, nothing.

They hold what a run would have found, written by hand or from a seed. Does not compute findings.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from analytics.topology.model.document import (
    SEVERITIES,
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
from tests.support.topology_examples import with_totals

NOW = 1_795_264_200.0
#: What a sender may put into its `source`: every way out of a page that comes to mind.
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7*7 }}{% raw %}${7*7}`",
    "<!--<script>",
    "]]></svg><![CDATA[",
    "evil\u202egnp.exe\u2066\u200b\x00\x1b[31m\x7f\ufeff\u2028",
    "javascript:alert(1)//",
    "a" * 10_240,
    "مصدر-عربي/طلبات",
    "Z" + "\u0301" * 200,
    "\ud800lone",
)


class Maker:
    """Collects vertices and edges by short names."""

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        self.edges: list[Edge] = []
        self.findings: list[Finding] = []

    def add(self, kind: Kind, namespace: str, name: str, health: Health = Health.OK, **more: object) -> str:
        """A vertex; its id."""
        place = f"{namespace}/{name}" if namespace else name
        prefix = kind if namespace else "source" if kind is Kind.SOURCE else "uri"
        label = f"{place}.dlq" if kind is Kind.DLQ else place
        vertex = Vertex(f"{prefix}:{place}", kind, namespace, name, label, health, **more)  # type: ignore[arg-type]
        self.vertices.setdefault(vertex.id, vertex)
        return vertex.id

    def join(self, kind: Flow, source: str, target: str, rate: float | None = None, **more: object) -> str:
        """An edge; its id. Without a `health`, it is idle when nothing flows."""
        health = more.pop("health", Health.UNKNOWN if rate is None else Health.OK if rate else Health.IDLE)
        figures = {} if rate is None else {"events": int(rate * 3600), "rate": rate, "bytes_rate": rate * 812.0}
        edge = Edge(edge_id(kind, source, target), source, target, kind, health, **{**figures, **more})  # type: ignore[arg-type]
        self.edges.append(edge)
        return edge.id

    def route(self, namespace: str, channel: str, name: str, to: str, rate: float, **more: object) -> str:
        """A subscription of a channel with its delivery; its id."""
        lag = 41_320 if more.get("health") is Health.FAILED else 0
        subscription = self.add(
            Kind.SUBSCRIPTION,
            namespace,
            name,
            more.get("health", Health.OK),  # type: ignore[arg-type]
            lag=lag,
            message="403 from the subscriber since 13:12" if lag else "",
            detail={"group": f"penstock.{namespace}.{name}", "order": "key-ordered", "retry": 5},
        )
        self.join(Flow.SUBSCRIBES, channel, subscription, rate, lag=lag)
        self.join(Flow.DELIVERS, subscription, to, rate, latency_p50_s=0.0042, latency_p99_s=0.118, **more)
        return subscription

    def find(self, rule: str, severity: Severity, title: str, objects: Iterable[str], *evidence: str) -> None:
        """A finding; the remedy is the same for all."""
        ids = tuple(objects)
        remedy = "Set `delivery.deadLetterSink` on the subscription, or on the channel for all of them."
        self.findings.append(Finding(f"{rule}:{ids[0]}", rule, severity, title, ids, evidence, remedy))

    def topology(self, **more: object) -> Topology:
        """All of it, with rankings made from the rates."""
        inflow: dict[str, float] = {}
        for edge in self.edges:
            end = edge.source if edge.kind is Flow.PUBLISHES else edge.target
            inflow[end] = inflow.get(end, 0.0) + (edge.rate or 0.0)
            if edge.kind is Flow.PUBLISHES:
                inflow[edge.target] = inflow.get(edge.target, 0.0) + (edge.rate or 0.0)
        vertices = [
            replace(vertex, rate=inflow.get(vertex.id), bytes_rate=inflow.get(vertex.id, 0.0) * 812)
            if vertex.id in inflow
            else vertex
            for vertex in self.vertices.values()
        ]
        busiest = sorted(vertices, key=lambda vertex: (-(vertex.rate or 0.0), vertex.id))[:10]
        fields: dict[str, object] = {
            "generated_at": NOW,
            "instance": "penstock",
            "namespace": "",
            "window": Window(NOW - 3600, NOW),
            "tier": Tier.WINDOWS,
            "engine": "local",
            "method": (
                "Channels, subscriptions and their state are from the contract and the workers' statuses.",
                "Rates are of the Parquet windows of `penstock job traffic`, 60 windows of one minute.",
                "Loops are strongly connected components; at most 20 cycles are listed in each.",
            ),
            "vertices": tuple(sorted(vertices, key=lambda vertex: vertex.id)),
            "edges": tuple(sorted(self.edges, key=lambda edge: edge.id)),
            "findings": tuple(
                sorted(self.findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.id))
            ),
            "rankings": (
                Ranking("traffic", "Most traffic", "events/s", tuple(Rank(v.id, v.rate or 0.0) for v in busiest)),
            ),
            "islands": (Island(1, len(vertices), 1, 12.5, tuple(v.id for v in vertices[:20])),) if vertices else (),
            **more,
        }
        return with_totals(Topology(**fields))  # type: ignore[arg-type]


def empty() -> Topology:
    """A new installation: the contract is empty and no traffic was read."""
    return Maker().topology(window=Window(), tier=Tier.NONE, rankings=())


def quickstart() -> Topology:
    """One channel, two subscriptions, one of which has dead letters."""
    make = Maker()
    channel = make.add(
        Kind.CHANNEL, "default", "quickstart", detail={"topic": "knative-messaging-kafka.default.quickstart"}
    )
    make.join(Flow.PUBLISHES, make.add(Kind.SOURCE, "", "/cli/send"), channel, 12.5)
    good = make.add(Kind.SUBSCRIBER, "", "http://127.0.0.1:8090/good")
    picky = make.add(Kind.SUBSCRIBER, "", "http://127.0.0.1:8090/picky", Health.DEGRADED)
    make.route("default", channel, "good", good, 12.5)
    route = make.route("default", channel, "picky", picky, 11.25, failures=3_375, health=Health.DEGRADED)
    make.join(Flow.DEAD_LETTERS, route, make.add(Kind.DLQ, "default", "quickstart"), 1.25, health=Health.DEGRADED)
    return make.topology()


def shop() -> Topology:
    """Some forty vertices in three namespaces: a loop, a failing subscriber, an orphan, missing dead letters."""
    make = Maker()
    priced = _orders(make)
    _shipping(make, priced)
    _clicks(make, priced)
    _shop_findings(make)
    start, *others = [
        "source:/web/checkout",
        "channel:orders/incoming",
        "subscription:orders/pricing",
        "uri:http://pricing.orders.svc/price",
        "channel:orders/priced",
        "subscription:orders/reprice",
    ]
    hops = dict(zip(others, (1, 2, 3, 3, 4), strict=True))
    return make.topology(reach=(Reach(start, 21, 7, hops),))


def _orders(make: Maker) -> str:
    """Orders come in, get a price, and come in again: the loop. The id of the channel with the priced ones."""
    web = [make.add(Kind.SOURCE, "", name) for name in ("/web/checkout", "/mobile/checkout", "urn:pos:berlin-7")]
    orders, priced = (make.add(Kind.CHANNEL, "orders", name) for name in ("incoming", "priced"))
    broker = make.add(Kind.BROKER, "orders", "default")
    for number, source in enumerate(web):
        make.join(Flow.PUBLISHES, source, orders, (420.0, 133.7, 8.2)[number])
    make.join(Flow.PUBLISHES, web[0], broker, 55.0)
    price = make.add(Kind.SUBSCRIBER, "", "http://pricing.orders.svc/price")
    pricing = make.route("orders", orders, "pricing", price, 561.9)
    make.join(Flow.REPLIES, pricing, priced, 561.9)
    fraud_check = make.route(
        "orders", orders, "fraud-check", make.add(Kind.SUBSCRIBER, "", "http://fraud.orders.svc/"), 561.9
    )
    make.join(Flow.REPLIES, fraud_check, make.add(Kind.REPLY_TARGET, "", "http://audit.example.com/replies"), 3.1)
    loop = make.route("orders", priced, "reprice", make.add(Kind.SUBSCRIBER, "", "http://reprice.orders.svc/"), 561.9)
    make.join(Flow.REPLIES, loop, orders, 14.0, health=Health.DEGRADED)
    dlq = make.add(Kind.DLQ, "orders", "incoming", Health.IDLE)
    for subscription in (pricing, fraud_check):
        make.join(Flow.DEAD_LETTERS, subscription, dlq, 0.0)
    for name in ("vip", "returns"):
        trigger = make.add(Kind.TRIGGER, "orders", name)
        make.join(Flow.SUBSCRIBES, broker, trigger, 55.0)
        target = make.add(Kind.SUBSCRIBER, "", f"http://{name}.orders.svc/events")
        make.join(Flow.DELIVERS, trigger, target, 6.4 if name == "vip" else 0.4)
    return priced


def _shipping(make: Maker, priced: str) -> None:
    """Parcels, with a subscriber that answers nothing but 403."""
    shipping = make.add(Kind.CHANNEL, "shipping", "parcels")
    label = make.route("orders", priced, "to-shipping", shipping, 561.9)
    failing = make.add(Kind.SUBSCRIBER, "", "http://labels.shipping.svc/print", Health.FAILED)
    make.route("shipping", shipping, "print-labels", failing, 0.0, failures=20_228, health=Health.FAILED)
    follower = make.add(Kind.SUBSCRIBER, "", "http://track.shipping.svc/")
    tracking = make.route("shipping", shipping, "tracking", follower, 561.9)
    sink = make.add(Kind.DEAD_LETTER_SINK, "", "http://hospital.shipping.svc/dead")
    make.join(Flow.DEAD_LETTERS, tracking, sink, 0.0)
    make.join(Flow.DEAD_LETTERS, label, make.add(Kind.DLQ, "orders", "priced", Health.IDLE), 0.0)


def _clicks(make: Maker, priced: str) -> None:
    """Clicks, which one subscriber gets twice, and an unused channel."""
    clicks = make.add(Kind.CHANNEL, "analytics", "clicks")
    for name in ("/web/catalogue", "/web/search"):
        make.join(Flow.PUBLISHES, make.add(Kind.SOURCE, "", name), clicks, 2_840.0 if "cat" in name else 960.5)
    warehouse = make.add(Kind.SUBSCRIBER, "", "http://loader.analytics.svc/v1/ingest?table=clicks")
    for name in ("warehouse", "warehouse-copy"):
        make.route("analytics", clicks, name, warehouse, 3_800.5)
    for name, channel, rate in (("sessions", clicks, 3_800.5), ("revenue", priced, 561.9)):
        make.route("analytics", channel, name, make.add(Kind.SUBSCRIBER, "", f"http://{name}.analytics.svc/"), rate)
    make.add(Kind.CHANNEL, "analytics", "old-clicks", Health.IDLE)


def _shop_findings(make: Maker) -> None:
    critical, warning, info = SEVERITIES
    loop = ["channel:orders/incoming", *(f"subscription:orders/{name}" for name in ("pricing", "reprice"))]
    make.find(
        "reply-loop",
        critical,
        "Events go in a loop: incoming → pricing → priced → reprice → incoming",
        [*loop, "channel:orders/priced"],
        "14 events/s come back to `orders/incoming` as replies of `orders/reprice`.",
        "The loop has 4 steps.",
    )
    lost = "subscription:shipping/print-labels"
    make.find(
        "failing",
        critical,
        "shipping/print-labels delivers nothing and 41,320 events wait",
        [lost, "uri:http://labels.shipping.svc/print"],
        "20,228 attempts failed in the window, none was answered with 2xx.",
        "The last answer was 403.",
    )
    copies = [f"subscription:analytics/{name}" for name in ("warehouse", "warehouse-copy")]
    for subscription in (lost, *copies, "subscription:analytics/sessions", "subscription:analytics/revenue"):
        title = f"{subscription.removeprefix('subscription:')} has no dead letter sink"
        make.find("no-dead-letters", warning, title, [subscription], "After 5 retries its events are gone.")
    make.find(
        "double-delivery",
        warning,
        "loader.analytics.svc gets each event of analytics/clicks twice",
        ["uri:http://loader.analytics.svc/v1/ingest?table=clicks", "channel:analytics/clicks", *copies],
        "Two subscriptions of one channel deliver to the same address.",
    )
    title = "analytics/old-clicks has no senders and no subscriptions"
    make.find("orphan", info, title, ["channel:analytics/old-clicks"], "No event in the window; no subscription.")
    remedy = "Let `orders/reprice` answer without an event, or filter its own replies."
    on_loop = {*loop, "channel:orders/priced"}
    edges = tuple(edge.id for edge in make.edges if {edge.source, edge.target} <= on_loop)
    make.findings[0] = replace(make.findings[0], remedy=remedy, edges=edges)


def large(vertices: int, seed: int = 5, namespaces: int = 60) -> Topology:
    """So many vertices: channels with sources, subscriptions and subscribers, some joined across namespaces."""
    chance = random.Random(seed)
    make = Maker()
    channels: list[str] = []
    while len(make.vertices) < vertices - 12:
        namespace = f"team-{chance.randrange(namespaces):02d}"
        channel = make.add(Kind.CHANNEL, namespace, f"channel-{len(channels)}")
        channels.append(channel)
        rate = chance.choice((0.0, 0.0, 0.02, 1.5, 40.0, 900.0)) * chance.random()
        for number in range(chance.randrange(1, 4)):
            source = make.add(Kind.SOURCE, "", f"/{namespace}/service-{len(channels)}/{number}")
            make.join(Flow.PUBLISHES, source, channel, rate)
        for number in range(chance.randrange(1, 4)):
            bad = chance.random() < 0.02
            uri = make.add(Kind.SUBSCRIBER, "", f"http://s{number}.{namespace}.svc/c{len(channels)}")
            health = Health.FAILED if bad else Health.OK if rate else Health.IDLE
            subscription = make.route(namespace, channel, f"c{len(channels)}-s{number}", uri, rate, health=health)
            if bad:
                make.find(
                    "failing",
                    Severity.CRITICAL,
                    f"{subscription} delivers nothing",
                    [subscription, uri],
                    "Every attempt failed.",
                )
            if chance.random() < 0.2:
                make.join(Flow.REPLIES, subscription, chance.choice(channels), rate / 2)
            if chance.random() < 0.3:
                make.join(
                    Flow.DEAD_LETTERS, subscription, make.add(Kind.DLQ, namespace, f"channel-{len(channels)}"), 0.0
                )
            elif chance.random() < 0.3:
                make.find(
                    "no-dead-letters",
                    Severity.WARNING,
                    f"{subscription} has no dead letter sink",
                    [subscription],
                    "None is set.",
                )
    while len(make.vertices) < vertices:
        make.add(Kind.CHANNEL, "attic", f"orphan-{len(make.vertices)}", Health.IDLE)
    return make.topology()


def hostile(texts: Iterable[str] = HOSTILE) -> Topology:
    """Attacker-controlled text in every field that a sender or a subscriber can fill."""
    make = Maker()
    channel = make.add(Kind.CHANNEL, "default", "inbox")
    for text in texts:
        source = make.add(Kind.SOURCE, "", text, Health.DEGRADED, message=text, detail={"types": text, text[:40]: 1})
        make.join(Flow.PUBLISHES, source, channel, 1.0, detail={text[:40]: text})
        make.find("odd", Severity.WARNING, text, [source, channel], text)
    return make.topology(method=tuple(texts), instance="penstock")
