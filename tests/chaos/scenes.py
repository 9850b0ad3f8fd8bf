"""What is broken in each scene, for how long in its short form (tests/system) and in its long one (`make chaos`).

Short forms have one worker from the start. With two, which of them has a partition after a failure is a matter of time,
and tests of the suite depend on no time.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.chaos import kafka
from tests.chaos.kafka import Breaks, coordinator, leader
from tests.chaos.world import FIFTH, FLOW_LIMIT_S, HALF, ORDERS, SEED, SETTLE_LIMIT_S, Pace, World, total
from tests.support.filter_bombs import MEMORY_BOMB, TIME_BOMB
from tests.support.ledger.worker_log import pauses
from tests.support.processes import Failed, Worker, wait_until
from tests.support.resources import Wanted
from tests.system.sending import post

_COMMITS = 10  # then one is on its way most of the time
_CHANGES_PER_S = 200 / 60


@dataclass(frozen=True, slots=True)
class Scene:
    """`breaks` is called with the world and with `short` or `long`: seconds, or how often, as it says."""

    name: str
    breaks: Callable[[World, int], None]
    short: int | None  #: None = it has no short form
    long: int
    duplicates_max: int | None = None  #: None = as many as the checker can explain
    refuses: bool = False  #: some events must have been refused, or nothing was broken
    disk: str = ""  #: what is on a disk of its own: `kafka` or `state`; such a scene has one broker
    workers: int = 1  #: from the start, in the long form
    broker: bool = False  #: with triggers of a broker instead of subscriptions of a channel
    short_pace: Pace = FIFTH  #: of events, in the short form
    direct: bool = False  #: the workers, except those that the scene starts, go past the proxies
    slow: bool = False  #: the subscriber is so slow that events wait in the workers' memory; else it is flaky


def _kafka(
    name: str,
    breaks: Breaks,
    short: int | None,
    long: int,
    *,
    workers: int = 2,
    refuses: bool = False,
    short_pace: Pace = FIFTH,
) -> Scene:
    """Kafka or the network before it fails for so many seconds."""

    def scene(world: World, seconds: int) -> None:
        with world.fault("kafka"), breaks(world.cluster, world.installation):
            time.sleep(seconds)
        world.cluster.heal()

    return Scene(name, scene, short, long, refuses=refuses, workers=workers, slow=True, short_pace=short_pace)


def _one_way_cut(world: World, seconds: int) -> None:
    """What one worker sends to Kafka does not arrive for this many seconds, and then it does. The others go on."""
    behind = replace(world.installation, bootstrap=world.cluster.bootstrap)
    worker = world.join(behind)
    wait_until("it commits", lambda: total(worker, "penstock_commits_total") > _COMMITS, FLOW_LIMIT_S)
    with world.fault("freeze"):  # until it has noticed, it delivers what others will deliver again
        for broker in world.cluster.brokers:
            broker.proxy.cut()
        wait_until(
            "it pauses", lambda: len({pause.subscription for pause in pauses(worker.log)}) == len(ORDERS), FLOW_LIMIT_S
        )
    time.sleep(seconds)
    world.wait_flow()
    world.cluster.heal()
    with world.fault("join"):
        consumed = worker.consumed()
        wait_until("it consumes again", lambda: worker.consumed() > consumed, FLOW_LIMIT_S)


def _broker_disk_full(world: World, seconds: int) -> None:
    assert world.disk is not None
    broker = world.cluster.brokers[0]
    with world.fault("kafka"):
        world.disk.fill()
        time.sleep(seconds)
        world.disk.free()
        if broker.running:  # it goes on without its folder, and takes that up again only at a start
            broker.kill()
        world.cluster.heal()


def _state_disk_full(world: World, seconds: int) -> None:
    """Statuses cannot be written; what is served goes on, and the statuses follow when there is room."""
    assert world.disk is not None
    world.disk.fill()
    fresh = world.add_subscription("late")
    time.sleep(seconds)
    world.wait_flow()
    world.disk.free()
    wait_until("the new subscription has a status", lambda: bool(fresh()), FLOW_LIMIT_S)


def _worker_kills(world: World, times: int) -> None:
    """Two dispatchers are killed in turns; another one starts at once, and is killed whether it is ready or not."""
    chance = random.Random(SEED)

    def start() -> Worker:
        worker = world.installation.worker("dispatcher", controller=False)
        world.beside.append(worker)
        return worker

    with world.fault("join"):
        running = [start(), start()]
        for worker in running:
            worker.wait_ready()
    for number in range(times):
        time.sleep(chance.uniform(0.1, 1.0))
        world.kill(running[number % 2])
        with world.fault("join"):
            running[number % 2] = start()
    with world.fault("join"):
        for worker in running:
            worker.wait_ready()
            wait_until("it consumes", lambda worker=worker: worker.consumed() > 0, FLOW_LIMIT_S)  # type: ignore[misc]


def _workers_come_and_go(world: World, times: int) -> None:
    """1, 4, 2, 5, 1 of them: nothing comes twice when each ends in order."""
    for _ in range(times):
        for count in (4, 2, 5, 1):
            while len(world.beside) + 1 < count:
                world.join()
            while len(world.beside) + 1 > count:
                world.leave(world.beside[0])
            world.wait_flow()


def _resources_change(world: World, seconds: int) -> None:
    """Subscriptions are made, edited and removed; what they held is given back."""
    _change(world, 60)  # what is made once and stays, such as the threads of a pool
    wait_until("dead letters are counted, by a Kafka client that stays", world.counts_dead_letters, SETTLE_LIMIT_S)
    before = world.holdings()
    _change(world, round(seconds * _CHANGES_PER_S))
    now: dict[str, int] = {}

    def given_back() -> bool:
        now.update(world.holdings())
        return all(now[name] <= before[name] for name in before)

    try:
        wait_until("it holds what it held before", given_back, SETTLE_LIMIT_S, poll_s=1.0)
    except Failed as problem:
        raise Failed(f"{problem}: {before} before, {now} now") from problem


def _change(world: World, times: int) -> None:
    """Ten names take turns: each is made, then edited, then removed."""
    installation = world.installation
    names = [f"changed-{number}" for number in range(10)]
    for number in range(times):
        name, what = names[number % len(names)], number // len(names) % 3
        if what == 2:
            installation.resources.remove(name)
        else:
            world.add_subscription(name, ("ordered", "unordered")[what])
        time.sleep(1 / _CHANGES_PER_S)
    left = times // len(names) % 3
    for number, name in enumerate(names):
        if left + (number < times % len(names)) not in (0, 3):
            installation.resources.remove(name)
    installation.wait_subscribers(world.first, len(ORDERS), SETTLE_LIMIT_S)


def _filter_bombs(world: World, seconds: int) -> None:
    """Triggers of another broker ask for too much, for large events: nobody else waits for them."""
    bombs = replace(world.installation, is_broker=True, channel="bombs")
    filters = {"memory": MEMORY_BOMB, "time": TIME_BOMB}
    nowhere = "http://127.0.0.1:1/"
    bombs.write(Wanted(name, nowhere, filter={"filters": [filter_]}) for name, filter_ in filters.items())
    bombs.wait_triggers(filters, SETTLE_LIMIT_S)
    until = time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() >= until:
            break
        large = [("ce-a", "a" * (60_000 if number % 2 else 120_000))]
        answered = post(world.first.port, bombs.resources.path, f"large-{number}", headers=large)
        if answered.status != 202:
            raise Failed(f"ingress answered {answered}")
    world.wait_flow()
    bombs.wait_settled(filters, SETTLE_LIMIT_S)


#: Brokers freeze, end and come back.
KAFKA = (
    _kafka("coordinator-frozen-one-worker", kafka.frozen(coordinator), 12, 15, workers=1),
    _kafka("coordinator-frozen", kafka.frozen(coordinator), None, 15),
    _kafka("coordinator-frozen-shortly", kafka.frozen(coordinator), None, 5),
    _kafka("coordinator-frozen-for-long", kafka.frozen(coordinator), None, 30),
    _kafka("coordinator-killed-one-worker", kafka.killed(coordinator), None, 5, workers=1),
    _kafka("coordinator-killed", kafka.killed(coordinator), None, 5),
    _kafka("leader-frozen", kafka.frozen(leader), 6, 15),
    _kafka("leader-killed", kafka.killed(leader), 2, 5),
    _kafka("all-killed-one-worker", kafka.all_killed, None, 5, workers=1),
    _kafka("all-killed", kafka.all_killed, None, 5),
    _kafka("below-min-isr", kafka.below_min_isr, 8, 15, refuses=True),
    _kafka("rolling-restart", kafka.rolling_restart, 0, 0),
)
#: Nothing, too little or not everything comes through between workers and brokers.
NETWORK = (
    _kafka("blackhole-one-worker", kafka.network(lambda broker: broker.proxy.blackhole()), 12, 45, workers=1),
    _kafka("blackhole", kafka.network(lambda broker: broker.proxy.blackhole()), None, 45),
    Scene("one-way-cut", _one_way_cut, None, 60, direct=True, slow=True),
    _kafka("refused", kafka.network(lambda broker: broker.proxy.refuse()), 6, 15),
    _kafka("resets", kafka.network(lambda broker: broker.proxy.reset(1.0)), 8, 180),
    _kafka("latency-200ms", kafka.network(lambda broker: broker.proxy.delay(0.2)), 6, 20),
    _kafka("64-kB-per-s", kafka.network(lambda broker: broker.proxy.limit(64_000)), 6, 20, short_pace=HALF),
)
#: Disks are full, workers come and go, resources change.
WORKERS = (
    Scene("broker-disk-full", _broker_disk_full, 5, 20, refuses=True, disk="kafka"),
    Scene("state-disk-full", _state_disk_full, 3, 20, disk="state"),
    Scene("30-worker-kills", _worker_kills, 4, 30),
    Scene("200-changes-a-minute", _resources_change, 9, 180),
    Scene("filter-bombs", _filter_bombs, None, 60, duplicates_max=0),
    Scene("workers-1-4-2-5-1", _workers_come_and_go, 1, 2, duplicates_max=0),
)


def _with_triggers(name: str, short: int | None = None) -> Scene:
    """The same with two triggers of a broker."""
    (scene,) = [candidate for candidate in (*KAFKA, *NETWORK, *WORKERS) if candidate.name == name]
    return replace(scene, name=f"{name}-with-triggers", short=short, broker=True)


TRIGGERS = (
    _with_triggers("coordinator-frozen"),
    _with_triggers("coordinator-killed"),
    _with_triggers("leader-frozen"),
    _with_triggers("all-killed"),
    _with_triggers("rolling-restart"),
    _with_triggers("one-way-cut", 14),
    _with_triggers("30-worker-kills", 3),
    _with_triggers("workers-1-4-2-5-1", 1),
)
SCENES = (*KAFKA, *NETWORK, *WORKERS, *TRIGGERS)
