"""Runs a scene and judges it by the ledger; what is stored twice must have been counted by the worker."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.disks import SmallDisk, mountable, small_disk
from tests.chaos.scenes import Scene
from tests.chaos.world import FLAKY, FLOW_LIMIT_S, FULL, judged, load, settle, world
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger.checker import Verdict
from tests.support.processes import wait_until

_SHOWN = 10
_DISK_MB = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """`broken` says what did not hold; the rest are figures."""

    name: str
    broken: tuple[str, ...]
    figures: dict[str, Any]


def run(scene: Scene, cluster: KafkaCluster, folder: Path, *, short: bool) -> Outcome:
    """On a cluster that is whole, and is whole again afterwards; a scene with a disk brings its own."""
    if not scene.disk:
        return _run(scene, cluster, folder, None, short=short)
    with small_disk(folder / scene.disk, _DISK_MB) as disk:
        if scene.disk != "kafka":
            return _run(scene, cluster, folder, disk, short=short)
        with KafkaCluster(disk.folder, brokers=1) as single:
            return _run(scene, single, folder, disk, short=short)


def run_short(scene: Scene, cluster: KafkaCluster, folder: Path) -> None:
    """As a test: in its short form, and nothing may be broken."""
    if scene.disk and (why := mountable()):
        pytest.skip(f"NOT RUN HERE: {why}")
    outcome = run(scene, cluster, folder, short=True)
    print(outcome)
    assert outcome.broken == ()


def _run(scene: Scene, cluster: KafkaCluster, folder: Path, disk: SmallDisk | None, *, short: bool) -> Outcome:
    began_s = time.monotonic()
    workers = 1 if short else scene.workers
    pace = scene.short_pace if short else FULL
    subscriber = pace.slow if scene.slow else FLAKY
    with world(
        cluster,
        folder,
        disk,
        workers=workers,
        subscriber=subscriber,
        is_broker=scene.broker,
        direct=scene.direct,
    ) as whole:
        with load(whole, pace) as sending:
            whole.wait_flow()
            for worker in whole.beside:
                wait_until("it consumes", lambda worker=worker: worker.consumed() > 0, FLOW_LIMIT_S)  # type: ignore[misc]
            amount = scene.short if short else scene.long
            assert amount is not None, f"{scene.name} has no such form"
            scene.breaks(whole, amount)
            recovery_s = whole.wait_flow()
            sending.process.terminate()
            sent = sending.result(180)
        counted = whole.stored_again()
        settle(whole)
        verdict = judged(whole)
    figures = {
        "seconds": round(time.monotonic() - began_s, 1),
        "recovery_s": recovery_s,
        "statuses": sent["statuses"],
        "p99_ms": sent["p99_ms"],
        "stored_twice": len(verdict.of("twice")),
        "stored_again_counted": counted,
        **dataclasses.asdict(verdict.report),
    }
    return Outcome(scene.name, tuple(_broken(scene, verdict, figures)), figures)


def _broken(scene: Scene, verdict: Verdict, figures: dict[str, Any]) -> list[str]:
    problems = [
        f"{violation.kind}: {violation.message}" for violation in verdict.violations if violation.kind != "twice"
    ][:_SHOWN]
    if figures["stored_twice"] > figures["stored_again_counted"]:
        problems.append(f"{figures['stored_twice']} stored twice, {figures['stored_again_counted']} counted")
        problems += [violation.message for violation in verdict.of("twice")][:_SHOWN]
    if scene.duplicates_max is not None and figures["duplicates"] > scene.duplicates_max:
        problems.append(f"{figures['duplicates']} duplicates, at most {scene.duplicates_max} may be")
    if scene.refuses and not figures["rejected"]:
        problems.append("no event was refused: nothing was broken")
    if not (figures["events"] and figures["deliveries"] and figures["commits"]):
        problems.append(f"nothing was judged: {figures}")
    return problems
