"""What the leading controller says in the status topic: which objects and files it cannot take, and who is long gone.

Status files lie on this machine only; commands run anywhere and read Kafka. One record holds all remarks and is written
when they change. Records of workers that were killed would stay for ever: after ten minutes of silence, by this
process's own clock, they are removed. Refuses to repeat what readers see in the workers' records themselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

import orjson
import structlog

from controller.plan.actions import WriteStatus
from controller.plan.channels import TOPIC_DIFFERS
from controller.source.directory import FileProblem
from knative.contract.records import ControllerReport, ResourceProblem
from knative.ports import Produce, ProduceFailure
from knative.resources.conditions import Condition, ConditionStatus, ready
from tables.status_table import (
    RECORD_BYTES_MAX,
    REPORT_KEY,
    REQUEST_KEY,
    SUBSCRIBER_FAILED,
    SUBSCRIBER_NOT_SERVED,
    SUBSCRIBER_WAITS_FOR_KAFKA,
    StatusTable,
    encode_report,
)

log = structlog.get_logger(__name__)

SILENT_S = 600.0  #: a worker that said nothing for so long will not come back under its name
FOREIGN_MAX = 5_000  #: uids of foreign resources in one record
REQUEST_LIVES_S = 120.0  #: what was asked for longer ago is not done any more: whoever asked has given up
_SEEN_BY_READERS = frozenset({SUBSCRIBER_FAILED, SUBSCRIBER_NOT_SERVED, SUBSCRIBER_WAITS_FOR_KAFKA})
_URGENCY = {"False": 0, "Unknown": 1, "True": 2}


def resource_problems(
    statuses: Iterable[WriteStatus], problems: Iterable[FileProblem], notes: Iterable[FileProblem] = ()
) -> list[ResourceProblem]:
    """One for each object that is not simply well and for each file that is not taken wholly; the worst first.

    `notes`: what is odd about the directory, and keeps nothing in it from being served."""
    found = [_on_problem(problem) for problem in problems]
    found += [_on_file(note, "True", "OthersStay") for note in notes]
    found += [problem for status in statuses if (problem := _on_object(status)) is not None]
    return sorted(found, key=lambda one: (_URGENCY[one.ready], one.kind, one.namespace, one.name, one.message))


def fitting(
    found: Sequence[ResourceProblem], bytes_max: int = RECORD_BYTES_MAX
) -> tuple[tuple[ResourceProblem, ...], int]:
    """As many of them as one record takes, and how many are left out."""
    room = bytes_max
    for count, problem in enumerate(found):
        room -= len(orjson.dumps(asdict(problem))) + 1
        if room < 0:
            return tuple(found[:count]), len(found) - count
    return tuple(found), 0


def _on_problem(problem: FileProblem) -> ResourceProblem:
    if not problem.ignored:
        return _on_file(problem, "False", "FileNotTaken")
    return _on_file(problem, "False" if problem.slip else "True", "DocumentLeftOut")


def _on_file(problem: FileProblem, ready_: str, reason: str) -> ResourceProblem:
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    what = ": ".join(part for part in (problem.object, problem.field, problem.what) if part)
    return ResourceProblem("File", "", place, ready_, reason, f"{what}; {problem.cure}" if problem.cure else what)


def _on_object(status: WriteStatus) -> ResourceProblem | None:
    parts = [one for one in status.conditions if one.type != "Ready" and one.reason not in _SEEN_BY_READERS]
    told = ready(parts)
    if told.status is ConditionStatus.TRUE:
        note = next((one for one in parts if one.reason == TOPIC_DIFFERS), None)
        if note is None:
            return None
        told = replace(note, type="Ready")
    return _remark(status, told)


def _remark(status: WriteStatus, told: Condition) -> ResourceProblem:
    return ResourceProblem(status.kind, status.namespace, status.name, told.status.value, told.reason, told.message)


class StatusReporter:
    """Writes to the status topic. Event loop only; only while this process leads."""

    def __init__(self, produce: Produce, table: StatusTable, topic: str) -> None:
        self._produce = produce
        self._table = table
        self._topic = topic
        self._heard: dict[str, tuple[float, float]] = {}  #: worker -> (time in its last record, when that was new here)

    def report(
        self,
        statuses: Iterable[WriteStatus],
        problems: Iterable[FileProblem],
        notes: Iterable[FileProblem] = (),
        foreign: Iterable[str] = (),
    ) -> None:
        """Say what cannot be taken, `notes` on the directory, and the uids of what is foreign to it, unless the topic
        says it already. Not stored: the next call says it again."""
        if not self._table.loaded:
            return
        uids = tuple(sorted(foreign))[:FOREIGN_MAX]
        told, left_out = fitting(resource_problems(statuses, problems, notes), RECORD_BYTES_MAX - 40 * len(uids))
        said = self._table.report
        if said is None or (said.problems, said.left_out, said.foreign) != (told, left_out, uids):
            self._send(REPORT_KEY, encode_report(ControllerReport(time.time(), told, left_out, uids)))

    def take_requests(self, now: float) -> frozenset[str]:
        """Uids of foreign resources that somebody wants removed, and waits for it; they are asked for once. `now`: Unix
        seconds."""
        requests = self._table.requests.values()
        for one in requests:
            self._send(REQUEST_KEY + one.uid.encode(), None)
        return frozenset(one.uid for one in requests if abs(now - one.time) <= REQUEST_LIVES_S)

    def sweep(self, now_s: float) -> None:
        """Remove the records of workers that are long silent. `now_s`: of a clock that never goes back."""
        self._heard = {
            name: before if (before := self._heard.get(name)) and before[0] == worker.time else (worker.time, now_s)
            for name, worker in self._table.workers.items()
        }
        for name, (_, since) in self._heard.items():
            if now_s - since >= SILENT_S:
                log.info("record of a worker that is gone is removed", gone=name, silent_s=round(now_s - since))
                self._send(name.encode(), None)

    def _send(self, key: bytes, value: bytes | None) -> None:
        self._produce.send(self._topic, value, key, [], _stored, 0)


def _stored(failure: ProduceFailure | None) -> None:
    if failure is not None:
        log.debug("what the controller says was not stored", reason=failure.message)
