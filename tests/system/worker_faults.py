"""Breaks the second worker of an installation while it delivers: ends, kills, freezes it, and notes each as a fact."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from knative.contract import kafka_names
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.ledger.facts import Fact, Fault, Writer, read
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until

FROZEN_S = 10.0  #: a session is over after 8
_PROGRESS = 300  #: events that come after a worker has joined, before it is broken


@dataclass(slots=True)
class WorkerFaults:
    """`expected`: events that the sink is to receive in the whole run."""

    installation: Installation
    sink: SinkProcess
    expected: int
    seed: int
    noted: list[Fault] = field(default_factory=list)

    def join(self) -> Worker:
        """A dispatcher that has joined, took partitions over and delivers, while events still come in."""
        started_s = time.time()
        worker = self.installation.worker("dispatcher", controller=False).wait_ready()
        wait_until("the second worker consumes", lambda: worker.consumed() > 0, 180)
        self._note("join", started_s, time.time())
        goal = min(self._received() + _PROGRESS, self.expected)
        wait_until(f"{goal} events received", lambda: self._received() >= goal, 180, poll_s=0.1)
        assert self._received() < self.expected, "everything was delivered before anything was broken"
        return worker

    def end(self, worker: Worker) -> None:
        """SIGTERM, and exit code 0."""
        from_s = time.time()
        assert worker.terminate() == 0, worker.tail()
        self._note("term", from_s, time.time())

    def kill(self, worker: Worker) -> None:
        """SIGKILL, until the sink has read what the worker had sent: its answer comes after that."""
        from_s = time.time()
        worker.kill()
        self.sink.stats()
        self._note("kill", from_s, time.time())

    def freeze(self, worker: Worker) -> None:
        """SIGSTOP past its session, until it consumes again. Others take its partitions over; when it goes on it does
        not know, and what it settles must not be committed."""
        group = kafka_names.fanout_group(self.installation.name, self.installation.resources.topic)
        groups = KafkaAdmin({"bootstrap.servers": self.installation.bootstrap}).groups

        def members() -> int:
            about = groups.describe(group)
            return 0 if about is None else about.members

        def heard() -> int:
            return worker.log.read_text().count("partitions lost")

        others, lost, before, from_s = members() - 1, heard(), worker.consumed(), time.time()
        worker.pause()
        time.sleep(FROZEN_S)
        wait_until("its session is over", lambda: members() == others, 180, poll_s=0.5)
        resumed_s = time.time()
        worker.resume()
        wait_until("the frozen worker has heard of it", lambda: heard() > lost, 180)
        self.sink.stats()  # it has read what the worker had sent
        self.noted.append(Fault("freeze", from_s, time.time(), self.seed, resumed_s))
        wait_until("the frozen worker consumes again", lambda: worker.consumed() > before, 180)

    def facts(self, names: Sequence[str]) -> list[Fact]:
        """Everything of the run, once it is over: `sent` and `received` of the installation's folder, these faults, and
        what Kafka says of the groups of these names."""
        installation, folder = self.installation, self.installation.folder
        bootstrap, resources = installation.bootstrap, installation.resources
        with Writer(folder / "outside") as writer:
            writer.write_all(self.noted)
            writer.write_all(reader.stored(bootstrap, resources.topic))
            writer.write_all(reader.dead(bootstrap, resources.dlq_topic))
            writer.write_all(reader.committed(bootstrap, [installation.group(name) for name in names]))
        return list(read(folder / "sent", folder / "received", folder / "outside"))

    def enough(self, load: LoadProcess, deliveries: int) -> int:
        """After the last fault: stop the load when the sink has had so many, and return how many events it sent."""
        wait_until(f"{deliveries} deliveries", lambda: self._received() >= deliveries, 500, poll_s=0.1)
        load.process.terminate()
        result = load.result(180)
        accepted: int = result["accepted"]
        assert set(result["statuses"]) == {"202"}, result
        return accepted

    def _received(self) -> int:
        return sum(counts["distinct"] for counts in self.sink.stats().values())

    def _note(self, kind: str, from_s: float, to_s: float) -> None:
        self.noted.append(Fault(kind, from_s, to_s, self.seed))
