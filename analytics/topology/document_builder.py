"""Turns facts and states into the vertices and edges of the document: rates, health, and details for tables.

    health of a consumer:  no worker serves it -> unknown/failed, it fails or retries -> degraded, nothing came -> idle
    health of a URI:       the worst of the edges into it, but `failed` only when nothing gets through

Does not judge what it means: `findings` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import orjson

from analytics.topology.model.document import Edge, Flow, Health, Kind, Scalar, Tier, Vertex, edge_id
from analytics.topology.model.facts import Facts, SubscriptionFacts, rows_of
from analytics.topology.model.inputs import Inputs, State, Traffic
from knative.contract.records import BROKER, unique_name
from knative.filters.dialects import to_json
from knative.traffic import latency_sketch
from knative.traffic.counts import OF_SUBSCRIPTIONS

if TYPE_CHECKING:
    from analytics.topology.model.arrivals import Arrivals

_URI_KINDS = {
    Flow.DELIVERS: Kind.SUBSCRIBER,
    Flow.REPLIES: Kind.REPLY_TARGET,
    Flow.DEAD_LETTERS: Kind.DEAD_LETTER_SINK,
}
_BROKER_PREFIX = unique_name(BROKER, "")
_NOTHING = State("Unknown", "no worker has reported its state")
_UNCOUNTED = Traffic(False, "", "")


class DocumentBuilder:
    """Builds the vertices and edges of one document."""

    def __init__(self, inputs: Inputs, facts: Facts, island_of: Mapping[str, int]) -> None:
        self._inputs = inputs
        self._facts = facts
        self._island_of = island_of
        self._seconds = inputs.window.seconds if inputs.counted else 0.0
        self._into: dict[str, list[Edge]] = defaultdict(list)  # edges into URIs and DLQs

    def build(self) -> tuple[tuple[Vertex, ...], tuple[Edge, ...]]:
        """Returns vertices and edges, both sorted by id."""
        edges = sorted(self._edges(), key=lambda edge: edge.id)
        for edge in edges:
            if edge.kind in _URI_KINDS:
                self._into[edge.target].append(edge)
        return tuple(sorted(self._vertices(), key=lambda vertex: vertex.id)), tuple(edges)

    def counted(self) -> tuple[Iterator[Vertex], Iterator[Edge]]:
        """Returns what totals count, one after the other: channels and subscriptions, and what these deliver."""
        consumers = self._facts.consumers
        vertices = chain(map(self._consumer, consumers), map(self._channel, self._facts.channels), self._lost())
        return vertices, chain.from_iterable(map(self._of_consumer, consumers))

    def _rate(self, count: int) -> float | None:
        return rate_of(count, self._seconds)

    def _count(self, count: int) -> int | None:
        return count if self._seconds > 0 else None

    def _edges(self) -> Iterator[Edge]:
        facts = self._facts
        came = ((Flow.PUBLISHES, facts.published), (Flow.CARRIES, facts.types), (Flow.SENDS, facts.sent))
        for flow, arrivals in came:
            for source, target, events, size in rows_of(arrivals):
                id_ = edge_id(flow, source, target)
                rate, bytes_rate = self._rate(events), self._rate(size)
                yield Edge(id_, source, target, flow, Health.OK, self._count(events), rate, bytes_rate)
        for consumer in facts.consumers:
            yield from self._of_consumer(consumer)

    def _of_consumer(self, facts: SubscriptionFacts) -> Iterator[Edge]:
        state = self._inputs.states.get(facts.subscription.uid, _NOTHING)
        total = self._facts.settled.get(facts.id, _UNCOUNTED)
        health = self._health(state, total)[0]
        size = total.counts.bytes / total.counts.events if total.counts.events else 0.0
        now = state.delivered_per_s if self._inputs.tier is Tier.STATUS and state is not _NOTHING else None
        yield Edge(
            edge_id(Flow.SUBSCRIBES, facts.channel, facts.id),
            facts.channel,
            facts.id,
            Flow.SUBSCRIBES,
            health,
            self._count(total.counts.events),
            self._rate(total.counts.events) if now is None else now,
            self._rate(total.counts.bytes),
            lag=state.lag,
        )
        failures = total.counts.retried + total.counts.dead
        yield Edge(
            edge_id(Flow.DELIVERS, facts.id, facts.target),
            facts.id,
            facts.target,
            Flow.DELIVERS,
            Health.FAILED if failures and not total.counts.delivered else health,
            self._count(total.counts.delivered),
            self._rate(total.counts.delivered) if now is None else now,
            self._rate(round(size * total.counts.delivered)),
            failures=self._count(failures),
            latency_p50_s=latency_sketch.quantile(total.latency, 0.5) if total.latency else None,
            latency_p99_s=latency_sketch.quantile(total.latency, 0.99) if total.latency else None,
        )
        if facts.reply:
            yield Edge(edge_id(Flow.REPLIES, facts.id, facts.reply), facts.id, facts.reply, Flow.REPLIES, health)
        if facts.returns and facts.returns != facts.reply:
            yield Edge(edge_id(Flow.REPLIES, facts.id, facts.returns), facts.id, facts.returns, Flow.REPLIES, health)
        if facts.dead:
            yield Edge(
                edge_id(Flow.DEAD_LETTERS, facts.id, facts.dead),
                facts.id,
                facts.dead,
                Flow.DEAD_LETTERS,
                self._counted_health(total.counts.dead, Health.DEGRADED),
                self._count(total.counts.dead),
                self._rate(total.counts.dead),
                self._rate(round(size * total.counts.dead)),
                failures=self._count(total.counts.dead),
            )

    def _counted_health(self, count: int, when_some: Health) -> Health:
        if self._seconds <= 0:
            return Health.UNKNOWN
        return when_some if count else Health.IDLE

    def _health(self, state: State, total: Traffic) -> tuple[Health, str]:
        if state.ready == "False":
            return Health.FAILED, state.message
        if state.ready != "True":
            return Health.UNKNOWN, state.message
        if state.retrying or total.counts.dead or total.counts.retried or total.counts.ignored:
            parts = [
                f"{state.retrying} events are being retried" if state.retrying else "",
                f"{total.counts.dead} dead letters" if total.counts.dead else "",
                f"{total.counts.ignored} events dropped" if total.counts.ignored else "",
                f"{total.counts.retried} retries" if total.counts.retried else "",
                state.last_error,
            ]
            return Health.DEGRADED, "; ".join(part for part in parts if part)
        if self._seconds > 0 and not total.counts.events and not state.lag:
            return Health.IDLE, ""
        return Health.OK, ""

    def _vertices(self) -> Iterator[Vertex]:
        for consumer in self._facts.consumers:
            yield self._consumer(consumer)
        channels = set(self._facts.channels)
        for id_ in channels:
            yield self._channel(id_)
        if self._facts.published is not None:
            yield from self._came(self._facts.published, Kind.SOURCE, "(other sources)")
        if self._facts.types is not None:
            yield from self._came(self._facts.types, Kind.EVENT_TYPE, "(other types)")
        for id_ in self._into.keys() - channels:
            yield self._destination(id_)
        yield from self._lost()

    def _came(self, arrivals: Arrivals[str], kind: Kind, others: str) -> Iterator[Vertex]:
        sums = (total.tolist() for total in arrivals.of_sources())
        for source, events, size in zip(arrivals.sources, *sums, strict=True):
            if events:  # otherwise only other parts of the map have it
                name = source.partition(":")[2]
                yield Vertex(
                    source,
                    kind,
                    "",
                    name,
                    name or others,
                    Health.OK,
                    rate=self._rate(events),
                    bytes_rate=self._rate(size),
                    island=0 if kind is Kind.EVENT_TYPE else self._island_of[source],
                )

    def _lost(self) -> Iterator[Vertex]:
        """Yields the channels that subscriptions name and that are not in the contract."""
        for id_ in sorted({consumer.channel for consumer in self._facts.consumers} - self._facts.channels.keys()):
            namespace, _, name = id_.partition(":")[2].partition("/")
            why = "this channel is not in the contract"
            yield Vertex(
                id_,
                Kind.CHANNEL,
                namespace,
                name,
                f"{namespace}/{name}",
                Health.FAILED,
                why,
                island=self._island_of[id_],
            )

    def _consumer(self, facts: SubscriptionFacts) -> Vertex:
        subscription = facts.subscription
        state = self._inputs.states.get(subscription.uid, _NOTHING)
        total = self._facts.settled.get(facts.id, _UNCOUNTED)
        health, message = self._health(state, total)
        policy = subscription.delivery
        detail: dict[str, Scalar] = {
            "channel": subscription.channel,
            "subscriber": subscription.subscriber.shown_uri,
            "group": subscription.group,
            "order": subscription.order.value,
            "retry": policy.retry,
            "exhausted": subscription.exhausted.value,
            "ready": state.ready,
            "in_flight": state.in_flight,
            "retrying": state.retrying,
        }
        if facts.filtered:
            detail["filter"] = orjson.dumps(to_json(subscription.filter)).decode()
        if self._seconds > 0:
            detail.update((name, getattr(total.counts, name)) for name in OF_SUBSCRIPTIONS)
        return Vertex(
            facts.id,
            Kind.TRIGGER if facts.id.startswith("trigger:") else Kind.SUBSCRIPTION,
            subscription.namespace,
            subscription.name,
            subscription.label,
            health,
            message,
            rate=self._rate(total.counts.events),
            bytes_rate=self._rate(total.counts.bytes),
            lag=state.lag,
            island=self._island_of[facts.id],
            detail=detail,
        )

    def _channel(self, id_: str) -> Vertex:
        channel = self._facts.channels[id_]
        events, size = self._facts.accepted.get(id_, (0, 0))
        return Vertex(
            id_,
            Kind.BROKER if id_.startswith("broker:") else Kind.CHANNEL,
            channel.namespace,
            channel.name,
            f"{channel.namespace}/{channel.name}",
            self._counted_health(events, Health.OK),
            rate=self._rate(events),
            bytes_rate=self._rate(size),
            island=self._island_of[id_],
            detail={
                "topic": channel.topic,
                "partitions": channel.partitions,
                "replicas": self._inputs.replicas.get(channel.topic),
                "dlq_topic": channel.dlq_topic,
                "host": channel.hosts[0] if channel.hosts else None,
            },
        )

    def _destination(self, id_: str) -> Vertex:
        """Returns the vertex of a URI, or of the DLQ topic of a channel."""
        edges = self._into[id_]
        events, size = sum(edge.events or 0 for edge in edges), sum(edge.bytes_rate or 0.0 for edge in edges)
        rate = self._rate(events)
        kind, _, rest = id_.partition(":")
        if kind == "dlq":
            namespace, _, name = rest.partition("/")
            of_broker, name = name.startswith(_BROKER_PREFIX), name.removeprefix(_BROKER_PREFIX)
            of = self._facts.channels.get(f"{'broker' if of_broker else 'channel'}:{namespace}/{name}")
            detail: dict[str, Scalar] = {"topic": of.dlq_topic} if of is not None else {}
            health = self._counted_health(events, Health.DEGRADED)
            message = f"{events} dead letters" if health is Health.DEGRADED else ""
            island = self._island_of[id_]
            label = f"{namespace}/{name}.dlq"
            return Vertex(id_, Kind.DLQ, namespace, name, label, health, message, (), rate, size, None, island, detail)
        roles = tuple(role for flow, role in _URI_KINDS.items() if any(edge.kind is flow for edge in edges))
        health = _worst([edge.health for edge in edges if edge.kind is not Flow.DEAD_LETTERS])
        failures = sum(edge.failures or 0 for edge in edges if edge.kind is Flow.DELIVERS)
        message = f"{failures} attempts failed" if failures else ""
        if roles == (Kind.DEAD_LETTER_SINK,):
            health, message = self._counted_health(events, Health.DEGRADED), ""
        return Vertex(
            id_,
            roles[0],
            "",
            rest,
            rest,
            health,
            message,
            roles,
            rate,
            size if rate is not None else None,
            island=self._island_of[id_],
        )


def rate_of(count: int, seconds: float) -> float | None:
    """Returns events or bytes per second; None without a window."""
    return round(count / seconds, 6) if seconds > 0 else None


def _worst(healths: list[Health]) -> Health:
    """Returns `failed` only when all are; else degraded beats ok beats idle beats unknown."""
    distinct = set(healths)
    if distinct == {Health.FAILED}:
        return Health.FAILED
    if distinct & {Health.FAILED, Health.DEGRADED}:
        return Health.DEGRADED
    return next((health for health in (Health.OK, Health.IDLE) if health in distinct), Health.UNKNOWN)
