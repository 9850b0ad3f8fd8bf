"""What goes wrong: a kill in mid-flow, a kill with only a gap open, a dead letter sink that is away, one that hangs.

Events are counted, not timed; a duplicate is a request for an event that was answered 200 before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import Implementation, Process, Wanted
from benchmarks.lab import Interval, Lab, Stage, sample
from benchmarks.measures.measure import Measure, Values
from benchmarks.subscribers import Subscribers
from tests.support.ledger import reader
from tests.support.processes import Failed, free_port, wait_until

REPEATED = Row("SIGKILL in mid-flow: duplicates, as seconds of deliveries", "s", 0.5, digits=3)
REPEATED_GAP = Row("SIGKILL when only a gap was open: duplicates", "events", 0, digits=0)
LOST = Row("retries exhausted and dead letter sink away: lost", "events", 0, digits=0)
UNCHANGED = Row("50 subscriptions of which one hangs: rate of the others by that of before", "%", 95, HIGHER)

_FLOW_WARM_UP, _FLOW_KILL_AT, _FLOW_EVENTS = 5_000, 25_000, 50_000
_GAP_EVENTS, _GAP_EVERY, _QUIET_S, _QUIET_LIMIT_S = 4_000, 500, 1.2, 30.0
_EXHAUSTED_EVENTS, _EXHAUSTED_EVERY, _KEPT_LIMIT_S = 2_000, 10, 20.0
_SUBSCRIPTIONS, _HANG_EVENTS, _HANG_WARM_UP = 50, 600, 100


@contextmanager
def _kill_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    """Two dispatchers are killed at once, to wait only once until Kafka gives their partitions away."""
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted("flow", sink.url("flow"))]) as flow,
        lab.stage(implementation, [Wanted("gap", sink.url("gap"), "key-ordered", 256)]) as gap,
    ):

        def once() -> Values:
            flow_repeated, gap_repeated = (sink.counter([name], "duplicates") for name in ("flow", "gap"))
            flow_arrived, gap_arrived = (sink.counter([name], "distinct") for name in ("flow", "gap"))
            flow_events, gap_events = lab.events(_FLOW_EVENTS), lab.events(_GAP_EVENTS)
            sink.behave("gap", f"hang_every={lab.events(_GAP_EVERY)}")
            with gap.killed() as gap_process:
                gap.fill(gap_events)
                most = gap_events * 9 // 10  # the rest is behind what hangs
                gap.until("the gap's events arrive", gap_process, lambda: gap_arrived() >= most)
                _quiet(gap, gap_process, sink, ["gap"])
                if not sink.stats()["gap"]["in_flight"]:
                    raise Failed("no event hung: there was no gap")
                flow.fill(flow_events)
                with flow.killed() as process:
                    per_s = _flow(lab, flow, process, sink)
            sink.behave("gap", "")
            with flow.dispatcher() as process, gap.dispatcher() as gap_process:
                flow.until("the flow's last event arrives", process, lambda: flow_arrived() >= flow_events)
                gap.until("the gap's last event arrives", gap_process, lambda: gap_arrived() >= gap_events)
                _quiet(flow, process, sink, ["flow", "gap"])
            return {REPEATED: flow_repeated() / per_s, REPEATED_GAP: gap_repeated()}

        yield once


def _flow(lab: Lab, stage: Stage, process: Process, sink: Subscribers) -> float:
    """Returns the deliveries a second until the moment of the kill."""
    delivered = sink.counter(["flow"])
    stage.until("the flow begins", process, lambda: delivered() >= lab.events(_FLOW_WARM_UP))
    start = sample(process, delivered)
    stage.until("the flow is in its middle", process, lambda: delivered() >= lab.events(_FLOW_KILL_AT), poll_s=0.01)
    return Interval(start, sample(process, delivered)).per_s


def _quiet(stage: Stage, process: Process, sink: Subscribers, names: Sequence[str]) -> None:
    """Waits until no request has come for a while: everything is committed that can be."""
    received = sink.counter(names, "received")
    seen, since_s, end_s = received(), time.monotonic(), time.monotonic() + _QUIET_LIMIT_S

    def quiet() -> bool:
        nonlocal seen, since_s
        now = received()
        if now != seen:
            seen, since_s = now, time.monotonic()
        return time.monotonic() - since_s > _QUIET_S or time.monotonic() > end_s

    stage.until(f"{', '.join(names)} is quiet", process, quiet, poll_s=0.1)


@contextmanager
def _exhausted_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    """The sink for dead letters comes up only when all retries must be over, and is away again in the next round."""
    port, kept = free_port(), set[str]()
    with (
        Subscribers(lab.new_folder("sink"), {"failing": f"fail_every={_EXHAUSTED_EVERY}"}) as sink,
        lab.stage(implementation, [_failing(sink, port)]) as stage,
    ):

        def once() -> Values:
            events = lab.events(_EXHAUSTED_EVENTS)
            with stage.dispatcher() as process:
                arrived, taken = sink.counter(["failing"], "distinct"), sink.counter(["failing"])
                stage.fill(events)
                stage.until("every event is tried", process, lambda: arrived() >= events)
                _quiet(stage, process, sink, ["failing"])
                if taken() == events:
                    raise Failed("no event failed: there was nothing to lose")
                with Subscribers(lab.new_folder("dead"), port=port) as dead:
                    return {LOST: _lost(stage, kept, [(sink, "failing"), (dead, "dead")])}

        yield once


def _failing(sink: Subscribers, port: int) -> Wanted:
    dead_letter_url = f"http://127.0.0.1:{port}/sub/dead"
    return Wanted("failing", sink.url("failing"), "key-ordered", 256, 2, 0.05, dead_letter_url)


def _lost(stage: Stage, kept: set[str], takers: Sequence[tuple[Subscribers, str]]) -> int:
    """Counts stored events that are nowhere: not with a subscriber, not in a topic beside the events' own. `kept` is
    what was found so far, including earlier rounds."""
    all_ids = {fact.id for fact in reader.stored(stage.lab.kafka, stage.assignment.topic)}

    def all_kept() -> bool:
        kept.update(*(sink.ids(name) for sink, name in takers))
        for topic in stage.topics_beside():
            kept.update(fact.id for fact in reader.stored(stage.lab.kafka, topic))
        return all_ids <= kept

    try:
        wait_until("all events are kept somewhere", all_kept, _KEPT_LIMIT_S, poll_s=0.5)
    except Failed:
        return len(all_ids - kept)
    return 0


@contextmanager
def _hang_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    names = [f"many-{number}" for number in range(_SUBSCRIPTIONS)]
    others = names[1:]
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted(name, sink.url(name)) for name in names]) as stage,
    ):

        def rate(process: Process, of: Sequence[str], events: int) -> float:
            for name in others:
                sink.times(name)
            delivered = sink.counter(of)
            stage.fill(events)
            stage.until("the last event arrives", process, lambda: delivered() >= events * len(of), poll_s=0.05)
            times = [sink.times(name) for name in others]
            seconds = max(arrivals.last_s for arrivals in times) - min(arrivals.first_s for arrivals in times)
            per_s: float = events * len(others) / seconds
            return per_s

        def once() -> Values:
            with stage.dispatcher() as process:
                events = lab.events(_HANG_EVENTS)
                rate(process, names, lab.events(_HANG_WARM_UP))
                before = rate(process, names, events)
                sink.behave(names[0], "hang_every=1")
                hanging = rate(process, others, events)
                sink.behave(names[0], "")
                return {UNCHANGED: 100 * hanging / before}

        yield once


MEASURES = (
    Measure(
        "kill",
        "SIGKILL while a backlog is drained, and while one event in 500 hangs",
        (REPEATED, REPEATED_GAP),
        _kill_scene,
    ),
    Measure(
        "exhausted", "one event in ten fails for ever, and the dead letter sink is away", (LOST,), _exhausted_scene
    ),
    Measure("hang", "50 subscriptions, then one of them hangs", (UNCHANGED,), _hang_scene),
)
