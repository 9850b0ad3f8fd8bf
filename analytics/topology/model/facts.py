"""The facts that joins and aggregates give: who is joined to whom, what went over each edge, and simple questions.

    Inputs --facts_of--> Facts { channels, consumers, what was published and settled, Joins }

Only `findings` decides what they mean. Questions that need a walk are in `engines/queries`. Needs numpy only if the
inputs say who sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from analytics.topology.model.addresses import channel_id
from analytics.topology.model.document import LISTED_MAX, Flow
from analytics.topology.model.inputs import Inputs, Traffic
from knative.contract.addresses import Addresses
from knative.contract.records import TRIGGER, Channel, Subscription
from knative.delivery.policy import OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS
from knative.urls import shown_url

if TYPE_CHECKING:
    from analytics.topology.model.arrivals import Arrivals

#: How much accepted and settled may differ: a share, seconds of traffic at the window's borders, or some events.
SLACK_SHARE = 0.02
SLACK_S = 2.0
SLACK_EVENTS = 5
CHECKSUM_CHARS = 6  #: of the checksum in the id of a destination: enough to tell apart, too few to find secrets


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """A subscription or trigger with its destinations as ids of vertices; "" = it has none."""

    id: str
    subscription: Subscription
    channel: str
    target: str
    reply: str
    dead: str
    filtered: bool  #: a filter selects only a part of the events

    @property
    def returns(self) -> str:
        """The broker of a trigger, to which the replies of its subscriber go back; "" for a subscription.

        Not one of `links`: a trigger has its events from there, so such an edge joins no channels that are not joined
        already. What it means is in `Joins.chains`.
        """
        return self.channel if self.subscription.kind == TRIGGER else ""

    @property
    def ignores(self) -> bool:
        """Whether an event with used-up retries is dropped."""
        return self.subscription.exhausted is OnRetriesExhausted.IGNORE

    def links(self) -> Iterator[tuple[str, str, Flow]]:
        """Yields its edges: (from, to, kind)."""
        yield self.channel, self.id, Flow.SUBSCRIBES
        yield self.id, self.target, Flow.DELIVERS
        if self.reply:
            yield self.id, self.reply, Flow.REPLIES
        if self.dead:
            yield self.id, self.dead, Flow.DEAD_LETTERS


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A subscription whose numbers do not add up: accepted in its channel, settled by it, and still waiting."""

    consumer: str
    accepted: int
    settled: int
    lag: int


@dataclass(frozen=True, slots=True)
class ReplyChain:
    """A broker whose triggers may answer each other: a reply comes to all of them, as their filters allow. Which events
    subscribers answer with is not known, so no filter rules a trigger out. At most LISTED_MAX ids of each."""

    broker: str
    count: int  #: of its triggers
    unfiltered: tuple[str, ...]  #: triggers that get every reply, their own too
    filtered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Joins:
    """Answers that do not need a walk: sorted ids of vertices."""

    unread: tuple[str, ...] = ()  #: channels without subscriptions
    unsent: tuple[str, ...] = ()  #: channels to which nothing was sent, and no edge leads
    doubles: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  #: (channel, destination, consumers: two or more)
    ignoring: tuple[str, ...] = ()  #: consumers that drop failed events
    chains: tuple[ReplyChain, ...] = ()  #: by broker
    imbalances: tuple[Imbalance, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """The graph with its numbers. Events and bytes are of the window."""

    channels: Mapping[str, Channel]
    own: frozenset[str]  #: the selected channels; others are joined to them
    consumers: Sequence[SubscriptionFacts]
    published: Arrivals[str] | None  #: by ids of sources and channels; None: not known
    accepted: Mapping[str, tuple[int, int]]  #: channel -> events, bytes
    settled: Mapping[str, Traffic]  #: by consumer
    joins: Joins = field(default_factory=Joins)
    sources_left_out: int = 0
    types: Arrivals[str] | None = None  #: by ids of event types and channels. Not part of walks, nor of `links_count`
    types_left_out: int = 0
    sent: Arrivals[str] | None = None  #: by ids of sources and event types. Not part of them either
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)  #: by channel, the types that it should get

    def links_count(self) -> int:
        """Returns the number of edges that walks pass."""
        pairs = 0 if self.published is None else len(self.published)
        return pairs + sum(2 + bool(consumer.reply) + bool(consumer.dead) for consumer in self.consumers)

    def edges_count(self) -> int:
        """Returns the number of edges with those of event types."""
        return self.links_count() + sum(len(part) for part in (self.types, self.sent) if part is not None)


def rows_of(arrivals: Arrivals[str] | None) -> Iterator[tuple[str, str, int, int]]:
    """See `Arrivals.rows`; none if they are not known."""
    return iter(()) if arrivals is None else arrivals.rows()


def facts_of(inputs: Inputs) -> Facts:
    """Returns the facts that follow from the inputs."""
    channels, own, consumers = structure_of(inputs)
    names = {(channel.namespace, channel.unique_name): id_ for id_, channel in channels.items()}
    accepted = _accepted(inputs, names)
    settled = _settled(inputs, consumers)
    joins = Joins(
        unread=tuple(sorted(own - {consumer.channel for consumer in consumers})),
        unsent=_unsent(inputs, own, consumers, accepted),
        doubles=_doubles(consumers),
        ignoring=tuple(sorted(consumer.id for consumer in consumers if consumer.ignores)),
        chains=_chains(consumers),
        imbalances=_imbalances(inputs, consumers, accepted, settled),
    )
    declared = {names[place]: frozenset(types) for place, types in inputs.declared.items() if place in names}
    facts = Facts(channels, own, consumers, None, accepted, settled, joins, declared=declared)
    if inputs.arrivals is None:
        return facts
    from analytics.topology.model.arrivals import came_into  # numpy is here if there are arrivals

    came = came_into(inputs.arrivals, names)
    return replace(facts, **{part.name: getattr(came, part.name) for part in fields(came)})


def structure_of(inputs: Inputs) -> tuple[dict[str, Channel], frozenset[str], list[SubscriptionFacts]]:
    """Returns (channels by id, ids of the selected ones, consumers), with the namespace filter applied."""
    addresses = Addresses(inputs.channels)
    by_uid = {channel.uid: channel_id(channel) for channel in inputs.channels}
    channels = {channel_id(channel): channel for channel in inputs.channels}
    resolve = destinations(addresses)
    consumers = sorted(
        (_consumer(subscription, by_uid, addresses, resolve) for subscription in inputs.subscriptions), key=_by_id
    )
    if not inputs.namespace:
        return channels, frozenset(channels), consumers
    own = frozenset(id_ for id_, channel in channels.items() if channel.namespace == inputs.namespace)
    kept = [
        consumer
        for consumer in consumers
        if consumer.subscription.namespace == inputs.namespace
        or not own.isdisjoint((consumer.target, consumer.reply, consumer.dead))
    ]
    joined = {id_ for facts in kept for id_ in (facts.channel, facts.target, facts.reply, facts.dead)}
    return {id_: channel for id_, channel in channels.items() if id_ in own or id_ in joined}, own, kept


def destinations(addresses: Addresses) -> Callable[[str], str]:
    """Returns a function: URI -> id of its vertex."""
    ids: dict[str, str] = {"": ""}

    def resolve(uri: str) -> str:
        id_ = ids.get(uri)
        if id_ is None:
            channel = addresses.channel_at(uri)
            id_ = ids[uri] = outside(uri) if channel is None else channel_id(channel)
        return id_

    return resolve


def outside(uri: str) -> str:
    """Returns the id of the vertex of a URI that is not a channel's: the URI as it is shown. If something is left out,
    a short checksum of the whole URI tells apart what differs in it only."""
    url = shown_url(uri)
    return f"uri:{url}" if url == uri else f"uri:{url}#{sha256(uri.encode()).hexdigest()[:CHECKSUM_CHARS]}"


def _by_id(consumer: SubscriptionFacts) -> str:
    return consumer.id


def _consumer(
    subscription: Subscription, channels: Mapping[str, str], addresses: Addresses, resolve: Callable[[str], str]
) -> SubscriptionFacts:
    sink = subscription.delivery.dead_letter_sink
    if subscription.exhausted is OnRetriesExhausted.IGNORE:
        dead = ""
    elif sink is not None:
        dead = resolve(sink.uri)
    else:
        of_topic = addresses.channel_of_topic(subscription.dlq_topic)
        dead = (
            f"dlq:{subscription.namespace}/{subscription.unique_channel}" if of_topic is None else channel_id(of_topic)
        )
    kind = "trigger" if subscription.kind == TRIGGER else "subscription"
    return SubscriptionFacts(
        id=f"{kind}:{subscription.namespace}/{subscription.name}",
        subscription=subscription,
        channel=channels.get(subscription.channel_uid, f"channel:{subscription.namespace}/{subscription.channel}"),
        target=resolve(subscription.subscriber.uri),
        reply=resolve(subscription.reply.uri) if subscription.reply is not None else "",
        dead=dead,
        filtered=subscription.filter != ALL_EVENTS,
    )


def _accepted(inputs: Inputs, names: Mapping[tuple[str, str], str]) -> dict[str, tuple[int, int]]:
    """Returns events and bytes that came into each channel."""
    came = (
        (names.get((traffic.namespace, traffic.channel)), traffic.counts)
        for traffic in inputs.traffic
        if traffic.accepted
    )
    return {id_: (counts.events, counts.bytes) for id_, counts in came if id_ is not None and counts.events}


def _settled(inputs: Inputs, consumers: Iterable[SubscriptionFacts]) -> dict[str, Traffic]:
    sums = {
        (traffic.namespace, traffic.channel, traffic.subscription): traffic
        for traffic in inputs.traffic
        if not traffic.accepted
    }
    totals = {}
    for consumer in consumers:
        subscription = consumer.subscription
        total = sums.get((subscription.namespace, subscription.unique_channel, subscription.unique_name))
        if total is not None:
            totals[consumer.id] = total
    return totals


def _unsent(
    inputs: Inputs, own: frozenset[str], consumers: Iterable[SubscriptionFacts], accepted: Mapping[str, object]
) -> tuple[str, ...]:
    """Returns channels to which nothing was sent. Empty without counts, because then the senders are unknown."""
    if not inputs.counted:
        return ()
    fed = {id_ for consumer in consumers for id_ in (consumer.target, consumer.reply, consumer.dead)}
    return tuple(sorted(id_ for id_ in own if id_ not in accepted and id_ not in fed))


def _chains(consumers: Iterable[SubscriptionFacts]) -> tuple[ReplyChain, ...]:
    of: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for consumer in consumers:
        if consumer.returns:
            of[consumer.returns][consumer.filtered].append(consumer.id)
    return tuple(
        ReplyChain(
            broker,
            len(free) + len(filtered),
            tuple(sorted(free)[:LISTED_MAX]),
            tuple(sorted(filtered)[:LISTED_MAX]),
        )
        for broker, (free, filtered) in sorted(of.items())
    )


def _doubles(consumers: Iterable[SubscriptionFacts]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for consumer in consumers:
        groups[consumer.channel, consumer.target].append(consumer.id)
    return tuple(sorted((*key, tuple(sorted(ids))) for key, ids in groups.items() if len(ids) > 1))


def _imbalances(
    inputs: Inputs,
    consumers: Iterable[SubscriptionFacts],
    accepted: Mapping[str, tuple[int, int]],
    settled: Mapping[str, Traffic],
) -> tuple[Imbalance, ...]:
    if not inputs.counted or inputs.window.seconds <= 0 or not inputs.current:
        return ()
    imbalances = []
    for consumer in consumers:
        state = inputs.states.get(consumer.subscription.uid)
        if state is None or state.lag is None:
            continue
        came = accepted.get(consumer.channel, (0, 0))[0]
        total = settled.get(consumer.id)
        done = 0 if total is None else total.counts.settled
        if off_balance(came, done, state.lag, slack(max(came, done), inputs.window.seconds)):
            imbalances.append(Imbalance(consumer.id, came, done, state.lag))
    return tuple(sorted(imbalances, key=lambda imbalance: imbalance.consumer))


def slack(events: int, window_s: float) -> float:
    """Returns how much accepted and settled may differ; `events`: the greater of them."""
    return SLACK_EVENTS + events * (SLACK_SHARE + SLACK_S / window_s)


def off_balance(accepted: int, settled: int, lag: int, room: float) -> bool:
    """Returns whether events went missing (fewer were settled than came and do not wait), or more were settled than
    came. `room`: the slack."""
    return accepted - settled - lag > room or settled - accepted > room
