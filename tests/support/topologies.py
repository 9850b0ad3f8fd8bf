"""Made-up topologies to look at, test and measure: a small one with everything in it, a shop, thousands, nothing.

They hold what a run would have found, written by hand or from a seed. Does not compute findings.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

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
from analytics.topology.model.totals import sums

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
HOSTILE_SOURCE = "</script><img src=x onerror=alert(1)>&\"'{{7*7}}"
SHOP, BILLS = "channel:shop/orders", "channel:shop/bills"


def with_totals(topology: Topology) -> Topology:
    """The same with the sums over what is in it."""
    return replace(topology, totals=sums(topology.vertices, topology.edges, topology.window.seconds))


class Maker:
    """Collects vertices and edges by short names."""

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        self.edges: list[Edge] = []
        self.findings: list[Finding] = []

    def add(self, kind: Kind, namespace: str, name: str, health: Health = Health.OK, **more: Any) -> str:
        """A vertex; its id."""
        place = f"{namespace}/{name}" if namespace else name
        prefix = kind if namespace else "source" if kind is Kind.SOURCE else "uri"
        label = f"{place}.dlq" if kind is Kind.DLQ else place
        vertex = Vertex(f"{prefix}:{place}", kind, namespace, name, label, health, **more)
        return self.vertices.setdefault(vertex.id, vertex).id

    def join(self, kind: Flow, source: str, target: str, rate: float | None = None, **more: Any) -> str:
        """An edge; its id. Without a `health`, it is idle when nothing flows. A `target` is an id, or a subscriber's
        URL."""
        target = self.add(Kind.SUBSCRIBER, "", target) if target.startswith("http") else target
        health = more.pop("health", Health.UNKNOWN if rate is None else Health.OK if rate else Health.IDLE)
        figures = {} if rate is None else {"events": int(rate * 3600), "rate": rate, "bytes_rate": rate * 812.0}
        self.edges.append(Edge(edge_id(kind, source, target), source, target, kind, health, **{**figures, **more}))
        return self.edges[-1].id

    def route(self, namespace: str, channel: str, name: str, to: str, rate: float, **more: Any) -> str:
        """A subscription of a channel with its delivery; its id."""
        health = more.get("health", Health.OK)
        lag, message = (41_320, "403 from the subscriber since 13:12") if health is Health.FAILED else (0, "")
        detail = {"group": f"penstock.{namespace}.{name}", "order": "key-ordered", "retry": 5}
        subscription = self.add(Kind.SUBSCRIPTION, namespace, name, health, lag=lag, message=message, detail=detail)
        self.join(Flow.SUBSCRIBES, channel, subscription, rate, lag=lag)
        self.join(Flow.DELIVERS, subscription, to, rate, latency_p50_s=0.0042, latency_p99_s=0.118, **more)
        return subscription

    def find(self, rule: str, severity: Severity, title: str, objects: Iterable[str], *evidence: str) -> None:
        """A finding; the remedy is the same for all."""
        ids = tuple(objects)
        remedy = "Set `delivery.deadLetterSink` on the subscription, or on the channel for all of them."
        self.findings.append(Finding(f"{rule}:{ids[0]}", rule, severity, title, ids, evidence, remedy))

    def topology(self, **more: Any) -> Topology:
        """All of it. Without `vertices`, they get their rates from the edges, and a ranking and an island."""
        fields: dict[str, Any] = {
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
            "edges": tuple(sorted(self.edges, key=lambda edge: edge.id)),
            "findings": tuple(
                sorted(self.findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.id))
            ),
        }
        return with_totals(Topology(**{**fields, **({} if "vertices" in more else self._rated()), **more}))

    def _rated(self) -> dict[str, Any]:
        inflow: dict[str, float] = {}
        for edge in self.edges:
            for end in (edge.source, edge.target) if edge.kind is Flow.PUBLISHES else (edge.target,):
                inflow[end] = inflow.get(end, 0.0) + (edge.rate or 0.0)
        vertices = [
            replace(vertex, rate=inflow[id_], bytes_rate=inflow[id_] * 812) if id_ in inflow else vertex
            for id_, vertex in self.vertices.items()
        ]
        busiest = sorted(vertices, key=lambda vertex: (-(vertex.rate or 0.0), vertex.id))[:10]
        ranks = tuple(Rank(vertex.id, vertex.rate or 0.0) for vertex in busiest)
        return {
            "vertices": tuple(sorted(vertices, key=lambda vertex: vertex.id)),
            "rankings": (Ranking("traffic", "Most traffic", "events/s", ranks),),
            "islands": (Island(1, len(vertices), 1, 12.5, tuple(self.vertices)[:20]),) if vertices else (),
        }


def small() -> Topology:
    """Two namespaces: a reply loop, an orphan, a broker with a trigger, a hostile source name."""
    make, now_s, degraded = Maker(), 1_790_000_000.0, Health.DEGRADED

    def channel(name: str, rate: float, namespace: str = "shop", island: int = 1) -> str:
        detail = {"topic": f"knative-messaging-kafka.{namespace}.{name}", "partitions": 4}
        health = Health.OK if rate else Health.IDLE
        figures = {"rate": rate, "bytes_rate": rate * 1024}
        return make.add(Kind.CHANNEL, namespace, name, health, island=island, detail=detail, **figures)

    def uri(url: str, rate: float, kind: Kind = Kind.SUBSCRIBER, health: Health = Health.OK) -> str:
        return make.add(kind, "", url, health, roles=(kind,), rate=rate, island=1)

    def flow(kind: Flow, source: str, target: str, rate: float, health: Health = Health.OK) -> str:
        latency = {"latency_p50_s": 0.004, "latency_p99_s": 0.120} if kind is Flow.DELIVERS else {}
        figures = {"events": round(rate * 60), "bytes_rate": rate * 1024, "failures": 3 * (health is degraded)}
        lag = 12 if kind is Flow.SUBSCRIBES else None
        return make.join(kind, source, target, rate, health=health, lag=lag, **figures, **latency)

    web = make.add(Kind.SOURCE, "", "/web", rate=20.0, bytes_rate=20480.0, island=1)
    hostile = make.add(Kind.SOURCE, "", HOSTILE_SOURCE, rate=0.1, island=1)
    shop, bills, forgotten = channel("orders", 22.5), channel("bills", 2.5), channel("forgotten", 0.0, "attic", 2)
    broker = make.add(Kind.BROKER, "shop", "main", Health.UNKNOWN, message="no worker", island=1)
    billing = make.add(Kind.SUBSCRIPTION, "shop", "billing", lag=12, island=1)
    problem = "http://echo.shop answered 503"
    echo = make.add(Kind.SUBSCRIPTION, "shop", "echo", degraded, message=problem, lag=4000, island=1)
    audit = make.add(Kind.TRIGGER, "shop", "audit", Health.UNKNOWN, island=1)
    bills_uri, echo_uri = uri("http://billing.shop", 22.4), uri("http://echo.shop", 2.5, health=degraded)
    graveyard = uri("http://graveyard.shop/dead", 0.1, Kind.DEAD_LETTER_SINK)
    dlq = make.add(Kind.DLQ, "shop", "orders", degraded, rate=0.1, island=1)

    flow(Flow.PUBLISHES, web, shop, 20.0)
    flow(Flow.PUBLISHES, hostile, shop, 0.1)
    round_trip = [
        flow(Flow.SUBSCRIBES, shop, billing, 22.5),
        flow(Flow.REPLIES, billing, bills, 2.5),
        flow(Flow.SUBSCRIBES, bills, echo, 2.5, degraded),
        flow(Flow.REPLIES, echo, shop, 2.4),
    ]
    flow(Flow.DELIVERS, billing, bills_uri, 22.4)
    flow(Flow.DEAD_LETTERS, billing, graveyard, 0.1)
    flow(Flow.DELIVERS, echo, echo_uri, 2.5, degraded)
    flow(Flow.DEAD_LETTERS, echo, dlq, 0.1, degraded)
    make.join(Flow.SUBSCRIBES, broker, audit, health=Health.OK)
    make.join(Flow.DELIVERS, audit, bills_uri, health=Health.OK)

    return make.topology(
        generated_at=now_s,
        window=Window(now_s - 60, now_s),
        tier=Tier.DELTAS,
        method=("Rates: the workers' traffic records of 60 s.", "Loops: strongly connected components."),
        vertices=tuple(sorted(make.vertices.values(), key=lambda vertex: vertex.id)),
        findings=_small_findings((shop, billing, bills, echo), round_trip, forgotten),
        rankings=(
            Ranking("influence", "Most influential channels", "share", (Rank(shop, 0.61), Rank(bills, 0.22))),
            Ranking("cut", "Single points of failure", "vertices cut off", (Rank(shop, 4.0, "carries 22.5/s"),)),
        ),
        reach=(Reach(web, 9, 5, {shop: 1, billing: 2}),),
        islands=(Island(1, 12, 2, 22.6, (broker, bills, shop)), Island(2, 1, 1, 0.0, (forgotten,))),
    )


def _small_findings(loop: tuple[str, ...], edges: list[str], unused: str) -> tuple[Finding, ...]:
    title = "Events run in a circle: shop/orders, shop/bills"
    way = "shop/orders → shop/billing → shop/bills → shop/echo → shop/orders"
    told = (way, "In the window 2.4 events/s went round.")
    remedies = "Let one of the replies go elsewhere.", "Delete the channel if it is unused."
    idle = ("No event was accepted in the window of 60 s.",)
    return (
        Finding(
            f"reply-loop:{BILLS}", "reply-loop", Severity.CRITICAL, title, loop, told, remedies[0], edges=tuple(edges)
        ),
        Finding(
            f"orphan-unsent:{unused}", "orphan-unsent", Severity.INFO, "attic/forgotten receives no events", (unused,),
            idle, remedies[1],
        ),
    )  # fmt: skip


def empty() -> Topology:
    """A new installation: the contract is empty and no traffic was read."""
    return Maker().topology(window=Window(), tier=Tier.NONE, rankings=())


def quickstart() -> Topology:
    """One channel, two subscriptions, one of which has dead letters."""
    make = Maker()
    topic = {"topic": "knative-messaging-kafka.default.quickstart"}
    channel = make.add(Kind.CHANNEL, "default", "quickstart", detail=topic)
    make.join(Flow.PUBLISHES, make.add(Kind.SOURCE, "", "/cli/send"), channel, 12.5)
    picky = make.add(Kind.SUBSCRIBER, "", "http://127.0.0.1:8090/picky", Health.DEGRADED)
    make.route("default", channel, "good", "http://127.0.0.1:8090/good", 12.5)
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
    hops = {
        "channel:orders/incoming": 1,
        "subscription:orders/pricing": 2,
        "uri:http://pricing.orders.svc/price": 3,
        "channel:orders/priced": 3,
        "subscription:orders/reprice": 4,
    }
    return make.topology(reach=(Reach("source:/web/checkout", 21, 7, hops),))


def _orders(make: Maker) -> str:
    """Orders come in, get a price, and come in again: the loop. The id of the channel with the priced ones."""
    rates = {"/web/checkout": 420.0, "/mobile/checkout": 133.7, "urn:pos:berlin-7": 8.2}
    sources = [make.add(Kind.SOURCE, "", name) for name in rates]
    orders, priced = (make.add(Kind.CHANNEL, "orders", name) for name in ("incoming", "priced"))
    broker = make.add(Kind.BROKER, "orders", "default")
    for source, rate in zip(sources, rates.values(), strict=True):
        make.join(Flow.PUBLISHES, source, orders, rate)
    make.join(Flow.PUBLISHES, sources[0], broker, 55.0)
    pricing = make.route("orders", orders, "pricing", "http://pricing.orders.svc/price", 561.9)
    make.join(Flow.REPLIES, pricing, priced, 561.9)
    fraud_check = make.route("orders", orders, "fraud-check", "http://fraud.orders.svc/", 561.9)
    make.join(Flow.REPLIES, fraud_check, make.add(Kind.REPLY_TARGET, "", "http://audit.example.com/replies"), 3.1)
    loop = make.route("orders", priced, "reprice", "http://reprice.orders.svc/", 561.9)
    make.join(Flow.REPLIES, loop, orders, 14.0, health=Health.DEGRADED)
    dlq = make.add(Kind.DLQ, "orders", "incoming", Health.IDLE)
    for subscription in (pricing, fraud_check):
        make.join(Flow.DEAD_LETTERS, subscription, dlq, 0.0)
    for name, rate in (("vip", 6.4), ("returns", 0.4)):
        trigger = make.add(Kind.TRIGGER, "orders", name)
        make.join(Flow.SUBSCRIBES, broker, trigger, 55.0)
        make.join(Flow.DELIVERS, trigger, f"http://{name}.orders.svc/events", rate)
    return priced


def _shipping(make: Maker, priced: str) -> None:
    """Parcels, with a subscriber that answers nothing but 403."""
    shipping = make.add(Kind.CHANNEL, "shipping", "parcels")
    label = make.route("orders", priced, "to-shipping", shipping, 561.9)
    failing = make.add(Kind.SUBSCRIBER, "", "http://labels.shipping.svc/print", Health.FAILED)
    make.route("shipping", shipping, "print-labels", failing, 0.0, failures=20_228, health=Health.FAILED)
    tracking = make.route("shipping", shipping, "tracking", "http://track.shipping.svc/", 561.9)
    sink = make.add(Kind.DEAD_LETTER_SINK, "", "http://hospital.shipping.svc/dead")
    make.join(Flow.DEAD_LETTERS, tracking, sink, 0.0)
    make.join(Flow.DEAD_LETTERS, label, make.add(Kind.DLQ, "orders", "priced", Health.IDLE), 0.0)


def _clicks(make: Maker, priced: str) -> None:
    """Clicks, which one subscriber gets twice, and an unused channel."""
    clicks = make.add(Kind.CHANNEL, "analytics", "clicks")
    for name, rate in (("/web/catalogue", 2_840.0), ("/web/search", 960.5)):
        make.join(Flow.PUBLISHES, make.add(Kind.SOURCE, "", name), clicks, rate)
    for name in ("warehouse", "warehouse-copy"):
        make.route("analytics", clicks, name, "http://loader.analytics.svc/v1/ingest?table=clicks", 3_800.5)
    make.route("analytics", clicks, "sessions", "http://sessions.analytics.svc/", 3_800.5)
    make.route("analytics", priced, "revenue", "http://revenue.analytics.svc/", 561.9)
    make.add(Kind.CHANNEL, "analytics", "old-clicks", Health.IDLE)


def _shop_findings(make: Maker) -> None:
    critical, warning, info = SEVERITIES
    loop = [
        "channel:orders/incoming", "subscription:orders/pricing", "subscription:orders/reprice", "channel:orders/priced"
    ]  # fmt: skip
    title = "Events go in a loop: incoming → pricing → priced → reprice → incoming"
    back = "14 events/s come back to `orders/incoming` as replies of `orders/reprice`."
    make.find("reply-loop", critical, title, loop, back, "The loop has 4 steps.")
    remedy = "Let `orders/reprice` answer without an event, or filter its own replies."
    edges = tuple(edge.id for edge in make.edges if {edge.source, edge.target} <= set(loop))
    make.findings[0] = replace(make.findings[0], remedy=remedy, edges=edges)
    lost = "subscription:shipping/print-labels"
    title = "shipping/print-labels delivers nothing and 41,320 events wait"
    none = "20,228 attempts failed in the window, none was answered with 2xx."
    make.find(
        "failing", critical, title, [lost, "uri:http://labels.shipping.svc/print"], none, "The last answer was 403."
    )
    copies = [f"subscription:analytics/{name}" for name in ("warehouse", "warehouse-copy")]
    for subscription in (lost, *copies, "subscription:analytics/sessions", "subscription:analytics/revenue"):
        title = f"{subscription.removeprefix('subscription:')} has no dead letter sink"
        make.find("no-dead-letters", warning, title, [subscription], "After 5 retries its events are gone.")
    title = "loader.analytics.svc gets each event of analytics/clicks twice"
    twice = ["uri:http://loader.analytics.svc/v1/ingest?table=clicks", "channel:analytics/clicks", *copies]
    make.find("double-delivery", warning, title, twice, "Two subscriptions of one channel deliver to the same address.")
    title = "analytics/old-clicks has no senders and no subscriptions"
    make.find("orphan", info, title, ["channel:analytics/old-clicks"], "No event in the window; no subscription.")


def large(vertices: int) -> Topology:
    """So many vertices: channels with sources, subscriptions and subscribers, some joined across namespaces."""
    chance = random.Random(5)
    make = Maker()
    channels: list[str] = []
    while len(make.vertices) < vertices - 12:
        namespace = f"team-{chance.randrange(60):02d}"
        own = f"channel-{len(channels)}"
        channel = make.add(Kind.CHANNEL, namespace, own)
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
                title, objects = f"{subscription} delivers nothing", [subscription, uri]
                make.find("failing", Severity.CRITICAL, title, objects, "Every attempt failed.")
            if chance.random() < 0.2:
                make.join(Flow.REPLIES, subscription, chance.choice(channels), rate / 2)
            if chance.random() < 0.3:
                dlq = make.add(Kind.DLQ, namespace, f"channel-{len(channels)}")
                make.join(Flow.DEAD_LETTERS, subscription, dlq, 0.0)
            elif chance.random() < 0.3:
                title = f"{subscription} has no dead letter sink"
                make.find("no-dead-letters", Severity.WARNING, title, [subscription], "None is set.")
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
    return make.topology(method=tuple(texts))
