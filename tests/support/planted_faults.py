"""Small worlds to plant faults in: channels and subscriptions as the contract has them, and traffic that fits.

    world = World().channel("a").channel("b").subscription("s", "a", "http://x", reply="b").sent("a", "/src", 60)
    build(world.inputs(), engine)

A destination without `http` is a channel of the world, addressed by its host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from analytics.topology.model.document import Tier, Window
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.model.sums import Summing
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS, Filter
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, SETTLED, Delta

READY = State("True", lag=0)
NOW_S = 1_790_000_000.0
WINDOW_S = 60.0
_AT_S = int(NOW_S) - 30
T = TypeVar("T", Channel, Subscription)


class World:
    """Built step by step; each step gives the world back. Namespaces: `ns/name`, without one `test`."""

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.subscriptions: list[Subscription] = []
        self.states: dict[str, State] = {}
        self.flows: list[Delta] = []
        self.declared: dict[tuple[str, str], tuple[str, ...]] = {}

    def channel(self, label: str, kind: str = "KafkaChannel") -> World:
        """One more channel, or broker."""
        namespace, name = split(label)
        topic = f"topic.{kind}.{namespace}.{name}"
        hosts = (f"{name}-kn-channel.{namespace}.svc.cluster.local",) if kind == "KafkaChannel" else ()
        uid = f"uid-{kind}-{namespace}-{name}"
        self.channels.append(Channel(uid, 1, namespace, name, topic, f"{topic}.dlq", 2, hosts, kind=kind))
        return self

    def subscription(
        self,
        label: str,
        channel: str,
        to: str,
        reply: str = "",
        sink: str = "",
        exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER,
        kind: str = "Subscription",
        state: State | None = READY,
        filter_: Filter = ALL_EVENTS,
        settles: int = 0,
    ) -> World:
        """One more; by default ready, without lag and without traffic. `settles`: so many are delivered."""
        namespace, name = split(label)
        gone = Channel("gone", 1, *split(channel), "topic.gone", "topic.gone.dlq", 1)
        of = _named(self.channels, channel) or gone
        record = Subscription(
            f"uid-{kind}-{namespace}-{name}", 1, namespace, name, of.uid, of.name, of.topic, of.dlq_topic,
            of.partitions, f"kafka.{namespace}-{name}", Addressable(self.address(to)),
            reply=Addressable(self.address(reply)) if reply else None,
            delivery=DeliverySpec(dead_letter_sink=Addressable(self.address(sink)) if sink else None),
            exhausted=exhausted, kind=kind, filter=filter_,
        )  # fmt: skip
        self.subscriptions.append(record)
        if state is not None:
            self.states[record.uid] = state
        return self.settled(label, settles) if settles else self

    def address(self, label: str) -> str:
        """A URI as it is; a channel's host, a broker's path."""
        if label.startswith("http"):
            return label
        namespace, name = split(label)
        if (namespace, name, "Broker") in [
            (channel.namespace, channel.name, channel.kind) for channel in self.channels
        ]:
            return f"http://ingress.example/{namespace}/{name}"
        return f"http://{name}-kn-channel.{namespace}.svc.cluster.local"

    def sent(self, channel: str, source: str, events: int, type_: str = "t") -> World:
        """A source sent this many events of 1 KiB. `channel`: its name, or its unique name."""
        place = _named(self.channels, channel)
        namespace, name = split(channel) if place is None else (place.namespace, place.unique_name)
        counts = Counts(events, 1024 * events)
        self.flows.append(Delta("w-1", len(self.flows), _AT_S, ACCEPTED, namespace, name, "", type_, source, counts))
        return self

    def declares(self, channel: str, *types: str) -> World:
        """Somebody has declared that these types come to a channel."""
        place = _named(self.channels, channel)
        assert place is not None, channel
        self.declared[place.namespace, place.unique_name] = types
        return self

    def settled(
        self, label: str, delivered: int, dead: int = 0, ignored: int = 0, retried: int = 0, filtered: int = 0
    ) -> World:
        """A subscription settled this many events, each delivery within 10 ms."""
        subscription = _named(self.subscriptions, label)
        assert subscription is not None, label
        counts = Counts(delivered + dead + ignored + filtered, 0, delivered, retried, dead, filtered, ignored)
        where = subscription.namespace, subscription.unique_channel, subscription.unique_name
        latency = {48: delivered} if delivered else {}
        self.flows.append(
            Delta(
                "w-1", len(self.flows), _AT_S, SETTLED, *where, "t",
                counts=replace(counts, bytes=1024 * counts.events), latency=latency,
            )
        )  # fmt: skip
        return self

    def inputs(self, counted: bool = True, namespace: str = "", workers: int = 1) -> Inputs:
        """All of it, with a window of a minute unless nothing is counted."""
        summing = Summing()
        for delta in self.flows:
            summing.delta(delta)
        traffic, arrivals = summing.sums()
        inputs = Inputs(
            instance="penstock", now=NOW_S, channels=tuple(self.channels), subscriptions=tuple(self.subscriptions),
            states=dict(self.states), traffic=traffic, arrivals=arrivals, declared=self.declared,
            window=Window(NOW_S - WINDOW_S, NOW_S), tier=Tier.DELTAS, namespace=namespace, workers=workers,
        )  # fmt: skip
        if counted:
            return inputs
        return replace(inputs, traffic=(), arrivals=None, window=Window(), tier=Tier.NONE)


def split(label: str) -> tuple[str, str]:
    namespace, _, name = label.rpartition("/")
    return namespace or "test", name


def _named(some: Iterable[T], label: str) -> T | None:
    """The one with this unique name, else the first with this name."""
    namespace, name = split(label)
    named = [each for each in some if each.namespace == namespace and name in (each.name, each.unique_name)]
    return min(named, key=lambda each: each.unique_name != name, default=None)


def healthy() -> World:
    """A source, a channel, two subscriptions with subscribers of their own, all in balance."""
    return (
        World()
        .channel("orders")
        .subscription("bill", "orders", "http://billing", settles=600)
        .subscription("ship", "orders", "http://shipping", sink="http://graveyard", settles=600)
        .sent("orders", "/shop", 600)
    )


def faulty() -> World:
    """Every fault once, each away from the others; see `FAULTS`."""
    return _unwell(_doubled(_looping(healthy())))


def _looping(world: World) -> World:
    return (
        world
        # events go round: ping -> pong -> ping
        .channel("ping")
        .channel("pong")
        .subscription("there", "ping", "http://player-1", reply="pong", settles=100)
        .subscription("back", "pong", "http://player-2", reply="ping", settles=100)
        .sent("ping", "/game", 100)
        .sent("pong", "/player-1", 100)
        # a channel that gets its own replies
        .channel("echo")
        .subscription("mirror", "echo", "http://mirror", reply="echo", settles=60)
        .sent("echo", "/narcissus", 60)
        # a dead letter sink that feeds what failed back, over a second channel
        .channel("work")
        .channel("dead")
        .subscription("worker", "work", "http://worker", sink="dead", settles=50)
        .subscription("undertaker", "dead", "work", settles=10)
        .sent("work", "/boss", 50)
        .sent("dead", "/worker", 10)
    )


def _doubled(world: World) -> World:
    return (
        world
        # one subscriber, two subscriptions of one channel
        .channel("news")
        .subscription("reader-1", "news", "http://reader", settles=30)
        .subscription("reader-2", "news", "http://reader", settles=30)
        .sent("news", "/press", 30)
        # one subscriber, the same event by a second channel
        .channel("all")
        .channel("some")
        .subscription("forward", "all", "some", settles=40)
        .subscription("all-log", "all", "http://log", settles=40)
        .subscription("some-log", "some", "http://log", settles=40)
        .sent("all", "/app", 40)
        .sent("some", "/app", 40)
        # one subscriber, the event and then the reply to it
        .channel("raw")
        .channel("cooked")
        .subscription("cook", "raw", "http://cook", reply="cooked", settles=20)
        .subscription("taste-raw", "raw", "http://gourmet", settles=20)
        .subscription("taste-cooked", "cooked", "http://gourmet", settles=20)
        .sent("raw", "/farm", 20)
        .sent("cooked", "/cook", 20)
    )


def _unwell(world: World) -> World:
    return (
        world
        # what fails is dropped; some did
        .channel("careless")
        .subscription("shrug", "careless", "http://shrug", exhausted=OnRetriesExhausted.IGNORE)
        .sent("careless", "/x", 100)
        .settled("shrug", 95, ignored=5)
        # nobody sends, nobody reads
        .channel("silent")
        .subscription("waiting", "silent", "http://waiting")
        .channel("unheard")
        .sent("unheard", "/crier", 10)
        # 1,000 came, 700 were settled, none waits
        .channel("leaky")
        .subscription("sieve", "leaky", "http://sieve")
        .sent("leaky", "/tap", 1000)
        .settled("sieve", 690, dead=10, retried=25)
        # not all partitions have an owner
        .channel("half")
        .subscription("sleepy", "half", "http://sleepy", state=State("Unknown", "partitions without an owner yet: 1"))
        .sent("half", "/h", 5)
    )


#: ids of the findings of `faulty()`, by hand
FAULTS = {
    "reply-loop:channel:test/ping",
    "self-reply:channel:test/echo",
    "dead-letter-loop:channel:test/dead",
    "double-delivery:uri:http://reader",
    "double-delivery:uri:http://log",
    "twice-on-path:uri:http://gourmet",
    "no-dead-letters:subscription:test/shrug",
    "dead-lettering:subscription:test/shrug",
    "dead-lettering:subscription:test/sieve",
    "unsent:channel:test/silent",
    "unread:channel:test/unheard",
    "unbalanced:subscription:test/sieve",
    "not-ready:subscription:test/sleepy",
}
