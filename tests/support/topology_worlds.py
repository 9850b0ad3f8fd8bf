"""Random worlds for Hypothesis: few names, so that everything is connected to everything."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from analytics.topology.model.inputs import State
from knative.delivery.policy import OnRetriesExhausted
from knative.delivery.verdicts import REPLY_LOOP
from knative.filters.dialects import ALL_EVENTS, Exact, Filter
from tests.support.planted_faults import READY, World

_LABELS = [f"{namespace}/{name}" for namespace in ("a", "b") for name in ("one", "two", "three")]
_ELSEWHERE = [
    "http://x/",
    "http://y:80",
    "http://any/channels/a/one",
    "https://z/channels/b/nowhere?q=/a/one",
    "https://z/channels/b/nowhere?q=2",
]
_LOOPED = State("True", lag=0, last_error=f"508 more than 64 replies led to this event: {REPLY_LOOP}")
_STATES = [READY, State("True", lag=40), State("Unknown", "no worker"), State("False", "failed", lag=3), None, _LOOPED]
_FILTERS: list[Filter] = [ALL_EVENTS, Exact((("type", "a"),))]
T = TypeVar("T")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Channels and brokers, subscriptions to channels that may not exist, traffic that need not fit."""
    world = World()
    kinds = st.sampled_from(["KafkaChannel", "KafkaChannel", "Broker"])
    labels = draw(st.lists(st.sampled_from(_LABELS), min_size=1, max_size=6, unique=True))
    for label in labels:
        world.channel(label, draw(kinds))
    ends = st.sampled_from([*labels, *_ELSEWHERE])
    for number in range(draw(st.integers(0, 9))):
        world.subscription(
            f"{draw(st.sampled_from('ab'))}/s{number}",
            draw(st.sampled_from([*labels, "a/gone"])),
            draw(ends),
            reply=draw(_maybe(ends)),
            sink=draw(_maybe(ends)),
            exhausted=draw(st.sampled_from(OnRetriesExhausted)),
            kind=draw(st.sampled_from(["Subscription", "Subscription", "Trigger"])),
            state=draw(st.sampled_from(_STATES)),
            filter_=draw(st.sampled_from(_FILTERS)),
        )
    counts = st.sampled_from([0, 3, 100, 1000])
    pairs = st.tuples(st.sampled_from([*labels, "a/gone"]), st.sampled_from(["", "/s", "/t", "urn:ü"]))
    for channel, source in draw(st.lists(pairs, max_size=6, unique=True)):
        world.sent(channel, source, draw(counts), draw(st.sampled_from(["", "a", "t", "ü"])))
    for subscription in world.subscriptions:
        if draw(st.booleans()):
            world.settled(subscription.label, *(draw(counts) for _ in range(5)))
    return world


def _maybe(some: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), some)
