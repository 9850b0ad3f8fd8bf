"""`penstock seek` and ResetOffsets in a running installation, under load: what is delivered, exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import LoadProcess, Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

LIMIT_S = 180.0
PARTITIONS = 3


@dataclass(slots=True)
class Moving:
    """An installation with two subscriptions of one topic: one is moved, the other is not."""

    installation: Installation
    subscriber: ScriptedSubscriber
    workers: list[Worker] = field(default_factory=list)

    def seek(self, to: str, *options: str) -> dict[int, tuple[int, int]]:
        """Partition -> (old offset, new offset)."""
        kind = self.installation.resources.kind
        done = self.installation.penstock(
            "seek", f"{kind}/{NAMESPACE}/moved", "--to", to, "--yes", "-o", "json", *options
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["moved"] is ("--dry-run" not in options)
        return {row["partition"]: (row["old"], row["new"]) for row in result["partitions"]}

    def delivered(self, name: str, offsets: dict[str, tuple[int, int]]) -> dict[int, list[int]]:
        """Partition -> the offsets of what a subscription has received, in the order of the requests."""
        by_partition: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for request in self.subscriber.requests(f"/{name}"):
            partition, offset = offsets[request.attributes["id"]]
            by_partition[partition].append(offset)
        return by_partition

    def count(self, name: str) -> int:
        return len(self.subscriber.requests(f"/{name}"))


@contextmanager
def running(kafka: EmbeddedKafka, folder: Path, kind: str, workers: int = 2) -> Iterator[Moving]:
    """Two workers; the first has the controller."""
    installation = Installation(kafka.bootstrap, folder, PARTITIONS, is_broker=kind == "Trigger")
    with ScriptedSubscriber() as subscriber:
        names = ("moved", "steady")
        installation.write([Wanted(name, subscriber.script(f"/{name}", says(200))) for name in names])
        moving = Moving(installation, subscriber)
        try:
            for number in range(workers):
                moving.workers.append(installation.worker(controller=number == 0).wait_ready())
            installation.wait_triggers(names, LIMIT_S)
            yield moving
            for worker in moving.workers:
                assert worker.terminate() == 0, worker.tail()
        finally:
            for worker in moving.workers:
                worker.kill()


def _stored(moving: Moving) -> tuple[dict[str, tuple[int, int]], dict[tuple[int, int], int]]:
    """id -> (partition, offset), and (partition, offset) -> timestamp in ms."""
    places, stamps = {}, {}
    for message in reader.records(moving.installation.bootstrap, moving.installation.resources.topic):
        place = (message.partition() or 0, message.offset() or 0)
        places[reader.header(message, "ce_id")] = place
        stamps[place] = message.timestamp()[1]
    return places, stamps


@pytest.mark.parametrize("kind", ["Subscription", "Trigger"])
def test_under_load_delivery_goes_on_exactly_from_the_new_offsets(
    kind: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with running(kafka, tmp_path, kind) as moving:
        options = {"events": 0, "keys": 30, "rate": 100}
        seeks: list[dict[int, tuple[int, int]]] = []
        with LoadProcess(tmp_path, moving.installation.url(moving.workers[0]), **options) as load:
            wait_until("events arrive", lambda: moving.count("moved") > 100, LIMIT_S)
            middle = datetime.now(UTC)
            for to in ("earliest", "latest", middle.isoformat(), "-5", "+3"):
                seeks.append(moving.seek(to))
                before = moving.count("moved")
                wait_until(f"events after {to}", lambda: moving.count("moved") > before + 50, LIMIT_S)  # noqa: B023
            load.terminate()
        moving.installation.wait_settled(["moved", "steady"], LIMIT_S)
        ends = moving.installation.ends()
        places, stamps = _stored(moving)
        assert moving.delivered("steady", places) == {p: list(range(ends[p])) for p in ends}, "nothing else is moved"
        delivered = moving.delivered("moved", places)
        for partition in range(PARTITIONS):
            edges = [0, *(edge for seek in seeks for edge in seek[partition]), ends[partition]]
            pairs = zip(edges[::2], edges[1::2], strict=True)
            assert delivered[partition] == [offset for start, end in pairs for offset in range(start, end)]
        earliest, latest, time, back, _ = seeks
        assert {new for _, new in earliest.values()} == {0}
        assert all(new >= old for old, new in latest.values())
        assert all(new == max(0, old - 5) for old, new in back.values())
        middle_ms = round(middle.timestamp() * 1000)  # Kafka's timestamps are whole milliseconds
        for partition, (_, new) in time.items():
            older = [offset for (p, offset), ms in stamps.items() if p == partition and ms < middle_ms]
            assert new == max(older) + 1, "the first record that is not older"


@pytest.mark.parametrize("kind", ["Subscription", "Trigger"])
def test_worker_that_was_frozen_during_a_seek_does_not_move_the_offsets_on(
    kind: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """It is awaited until it counts as gone. When it wakes, it remembers what it had settled, and must forget that."""
    with running(kafka, tmp_path, kind) as moving:
        options = {"events": 0, "keys": 30, "rate": 50}
        with LoadProcess(tmp_path, moving.installation.url(moving.workers[0]), **options) as load:
            wait_until("events arrive", lambda: moving.count("moved") > 100, LIMIT_S)
            moving.workers[1].pause()
            moves = moving.seek("earliest")
            moving.workers[1].resume()
            before = moving.count("moved")
            wait_until("events", lambda: moving.count("moved") > before + 100, LIMIT_S)
            load.terminate()
        moving.installation.wait_settled(["moved", "steady"], LIMIT_S)
        places, _ = _stored(moving)
        for partition, offsets in moving.delivered("moved", places).items():
            times = Counter(offsets)
            old, end = moves[partition][0], moving.installation.ends()[partition]
            assert {offset for offset in range(old) if times[offset] < 2} == set(), "what was delivered again"
            assert {offset for offset in range(end) if times[offset] < 1} == set()


def test_reset_offset_in_the_directory_is_carried_out_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with running(kafka, tmp_path, "Subscription", workers=1) as moving:
        installation = moving.installation
        options = {"events": 40, "keys": 20}
        with LoadProcess(tmp_path, installation.url(moving.workers[0]), **options) as load:
            load.result(LIMIT_S)
        installation.wait_settled(["moved"], LIMIT_S)
        _reset(installation, "again", "earliest", "moved")
        _reset(installation, "nowhere", "earliest", "missing")
        _reset(installation, "later", "2099-01-01T00:00:00Z", "moved")
        wait_until("it is carried out", lambda: _ready(installation, "again")[0] == "True", LIMIT_S)
        status = installation.status("ResetOffset", "again")["status"]
        ends = installation.ends()
        assert status["group"] == installation.group("moved")
        assert status["partitions"] == [
            {"partition": partition, "oldOffset": ends[partition], "newOffset": 0} for partition in range(PARTITIONS)
        ]
        wait_until("all is delivered again", lambda: moving.count("moved") == 80, LIMIT_S)
        wait_until("one is refused", lambda: _ready(installation, "nowhere") == ("False", "SubscriptionNotFound"), 60.0)
        wait_until("the other too", lambda: _ready(installation, "later") == ("False", "TimeInFuture"), LIMIT_S)
        installation.wait_settled(["moved"], LIMIT_S)
        assert moving.workers[0].terminate() == 0
        moving.workers[0] = installation.worker().wait_ready()
        installation.wait_triggers(["moved"], LIMIT_S)
        installation.wait_settled(["moved"], LIMIT_S)
        assert moving.seek("+0", "--dry-run") == {partition: (ends[partition],) * 2 for partition in range(PARTITIONS)}
        assert moving.count("moved") == 80, "a restart does not repeat it"


@pytest.mark.parametrize("kind", ["Subscription", "Trigger"])
def test_where_nothing_runs_offsets_are_moved_directly(kind: str, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with running(kafka, tmp_path, kind, workers=1) as moving:
        installation = moving.installation
        with LoadProcess(tmp_path, installation.url(moving.workers[0]), events=30, keys=20) as load:
            load.result(LIMIT_S)
        installation.wait_settled(["moved"], LIMIT_S)
        assert moving.workers[0].terminate() == 0
        ends = installation.ends()
        assert moving.seek("-4", "--dry-run") == moving.seek("-4")
        assert installation.position("moved") == {partition: max(0, end - 4) for partition, end in ends.items()}
        moving.workers[0] = installation.worker(controller=False, role="dispatcher").wait_ready()

        def names_the_worker() -> bool:
            """Before its first report, only Kafka knows that it runs."""
            refused = installation.penstock("seek", f"{NAMESPACE}/moved", "--to", "earliest", "--yes")
            assert refused.returncode == 3, refused.stdout
            return "but no controller" in refused.stderr

        wait_until("it is refused because a worker runs", names_the_worker, LIMIT_S)
        installation.wait_settled(["moved"], LIMIT_S)
        assert moving.count("moved") == 30 + sum(min(4, end) for end in ends.values())


def _reset(installation: Installation, name: str, to: str, ref: str) -> None:
    """A ResetOffset, as people write it."""
    document: dict[str, Any] = {
        "apiVersion": "kafka.eventing.knative.dev/v1alpha1",
        "kind": "ResetOffset",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "offset": {"time": to},
            "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "name": ref},
        },
    }
    (installation.resources.folder / f"reset-{name}.yaml").write_text(yaml.safe_dump(document))


def _ready(installation: Installation, name: str) -> tuple[str, str]:
    parts = installation.status("ResetOffset", name).get("status", {}).get("conditions", [])
    return next(
        ((condition["status"], condition.get("reason", "")) for condition in parts if condition["type"] == "Ready"),
        ("", ""),
    )
