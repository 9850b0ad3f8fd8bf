"""The leading controller's report in the status topic: objects and files with problems, and foreign resources.

Status files are on one machine only, but commands run anywhere and read Kafka. One record has all problems and is
written when they change. It does not repeat what readers see in the workers' records. Records of killed workers would
stay forever, so they are removed after ten minutes of silence, measured by this process's clock.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType

import orjson
import structlog

from controller.model import FileProblem
from controller.plan.actions import WriteStatus
from controller.plan.channels import SERVICE_NOT_WRITTEN, TOPIC_DIFFERS
from controller.plan.statuses import GHOSTS, WATCH_FORBIDDEN
from knative.contract.records import ControllerReport, ResourceProblem
from knative.contract.seeks import Seek, SeekRequest
from knative.ports import Produce, ProduceFailure
from knative.resources.brokers import NOT_OUR_CLASS
from knative.resources.conditions import Condition, ConditionStatus, ready
from tables.status_parts import RECORD_BYTES_MAX, keys_of
from tables.status_table import (
    FRESH_S,
    REPORT_KEY,
    REQUEST_KEY,
    SEEK_KEY,
    SUBSCRIBER_FAILED,
    SUBSCRIBER_NEEDS_NEWER_WORKER,
    SUBSCRIBER_NOT_IN_FILES,
    SUBSCRIBER_NOT_SERVED,
    SUBSCRIBER_STOPPED,
    SUBSCRIBER_WAITS_FOR_KAFKA,
    StatusTable,
    encode_report,
)

log = structlog.get_logger(__name__)

SILENT_S = 600.0  #: a worker that was silent for this long will not come back under its name
FOREIGN_MAX = 5_000  #: uids of foreign resources in one record
TYPES_BYTES_MAX = RECORD_BYTES_MAX // 4  #: of declared event types in one record: some 2,500
REQUEST_LIVES_S = 120.0  #: older requests are dropped, because the command that made them has given up
_SEEN_BY_READERS = frozenset(
    {
        SUBSCRIBER_FAILED,
        SUBSCRIBER_NOT_SERVED,
        SUBSCRIBER_STOPPED,
        SUBSCRIBER_WAITS_FOR_KAFKA,
        SUBSCRIBER_NEEDS_NEWER_WORKER,
    }
)
#: Reasons of conditions that are True, and about which people should know.
_NOTES = frozenset({TOPIC_DIFFERS, SERVICE_NOT_WRITTEN, GHOSTS, WATCH_FORBIDDEN})
_URGENCY = {"False": 0, "Unknown": 1, "True": 2}


def resource_problems(
    statuses: Iterable[WriteStatus], problems: Iterable[FileProblem], notes: Iterable[FileProblem] = ()
) -> list[ResourceProblem]:
    """Returns one problem for each object that is not fully served, and for each problem in a file; the worst first.

    `notes`: problems of the directory that do not keep anything in it from being served."""
    entries = [_on_problem(problem) for problem in problems]
    entries += [_on_file(note, "True", "OthersStay") for note in notes]
    entries += [problem for status in statuses if (problem := _on_object(status)) is not None]
    return sorted(
        entries,
        key=lambda resource_problem: (
            _URGENCY[resource_problem.ready],
            resource_problem.kind,
            resource_problem.namespace,
            resource_problem.name,
            resource_problem.message,
        ),
    )


def fitting(
    problems: Sequence[ResourceProblem], bytes_max: int = RECORD_BYTES_MAX
) -> tuple[tuple[ResourceProblem, ...], int]:
    """Returns the problems that fit into one record, and how many are left out."""
    room = bytes_max
    for count, problem in enumerate(problems):
        room -= len(orjson.dumps(asdict(problem))) + 1
        if room < 0:
            return tuple(problems[:count]), len(problems) - count
    return tuple(problems), 0


def fitting_types(
    declared: Mapping[str, tuple[str, ...]], bytes_max: int = TYPES_BYTES_MAX
) -> tuple[dict[str, tuple[str, ...]], int]:
    """Returns the channels whose types fit into a part of the record, and its size. Of a channel there are all types or
    none: with a part of them, others would seem not to be declared."""
    types, used = {}, 0
    for channel, some in declared.items():
        size = len(orjson.dumps({channel: some}))
        if used + size <= bytes_max:
            types[channel], used = some, used + size
    return types, used


def _on_problem(problem: FileProblem) -> ResourceProblem:
    if not problem.ignored:
        return _on_file(problem, "False", "FileNotTaken")
    return _on_file(problem, "False" if problem.suspected_typo else "True", "DocumentLeftOut")


def _on_file(problem: FileProblem, ready_: str, reason: str) -> ResourceProblem:
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    what = ": ".join(part for part in (problem.object, problem.field, problem.what) if part)
    return ResourceProblem("File", "", place, ready_, reason, f"{what}; {problem.hint}" if problem.hint else what)


def _on_object(status: WriteStatus) -> ResourceProblem | None:
    if status.conditions[0].reason in (NOT_OUR_CLASS, SUBSCRIBER_NOT_IN_FILES):
        return _resource_problem(status, status.conditions[0])
    parts = [
        condition
        for condition in status.conditions
        if condition.type != "Ready" and condition.reason not in _SEEN_BY_READERS
    ]
    summary = ready(parts)
    if summary.status is ConditionStatus.TRUE:
        note = next((part for part in (*parts, status.conditions[0]) if part.reason in _NOTES), None)
        if note is None:
            return None
        summary = replace(note, type="Ready")
    return _resource_problem(status, summary, parts)


def _resource_problem(status: WriteStatus, summary: Condition, parts: Iterable[Condition] = ()) -> ResourceProblem:
    said = tuple((part.type, part.status.value, part.reason, part.message) for part in parts if part.reason)
    return ResourceProblem(
        status.kind, status.namespace, status.name, summary.status.value, summary.reason, summary.message, said
    )


class StatusReporter:
    """Writes to the status topic. Event loop only; only while this process leads."""

    def __init__(
        self, produce: Produce, table: StatusTable, topic: str, version: str = "", silent_s: float = FRESH_S
    ) -> None:
        """`silent_s`: a worker whose record has not changed for this long is gone."""
        self._silent_s = silent_s
        self._produce = produce
        self._table = table
        self._topic = topic
        self._version = version
        self._open: dict[str, WriteStatus] = {}  #: by uid, those that say that something is wrong
        self._heard: dict[
            str, tuple[float, float]
        ] = {}  #: worker -> (time in its last record, our time when we first saw that)

    def forget(self) -> None:
        """Forget which statuses said that something is wrong: all are reported again."""
        self._open = {}

    def report(
        self,
        statuses: Iterable[WriteStatus],
        problems: Iterable[FileProblem],
        notes: Iterable[FileProblem] = (),
        foreign: Iterable[str] = (),
        only: Collection[str] | None = None,
        event_types: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        """Publish problems, `notes` on the directory, the uids of foreign resources, and the types that are declared
        for each channel, unless the topic has the same report. If it is not stored, the next call sends it again.
        `only`: uids that `statuses` are about; None: all."""
        kept = (
            {} if only is None else {uid: write_status for uid, write_status in self._open.items() if uid not in only}
        )
        self._open = kept | {status.uid: status for status in statuses if _on_object(status) is not None}
        if not self._table.loaded:
            return
        uids = tuple(sorted(foreign))[:FOREIGN_MAX]
        types, used = fitting_types(event_types)
        # The uids are in the same record: 36 characters each, plus quotes and separator.
        entries, left_out = fitting(
            resource_problems(self._open.values(), problems, notes), RECORD_BYTES_MAX - 40 * len(uids) - used
        )
        last = self._table.report
        report = ControllerReport(time.time(), entries, left_out, uids, self._version, types)
        if last is None or replace(last, time=report.time) != report:
            for channel in event_types.keys() - types.keys():
                log.warning(
                    "too many event types are declared: the topology leaves a channel out",
                    channel=channel,
                )
            self._send(REPORT_KEY, encode_report(report))

    def requested(self, now: float) -> frozenset[str]:
        """Returns the uids of foreign resources that a person asks to remove, without requests that are too old. `now`:
        Unix seconds."""
        requests = self._table.requests.values()
        return frozenset(request.uid for request in requests if abs(now - request.time) <= REQUEST_LIVES_S)

    def drop_requests(self, kept: Container[str]) -> None:
        """Drop all requests but those in `kept`, whose removals are not recorded yet."""
        for uid in self._table.requests:
            if uid in kept:
                continue
            self._send(REQUEST_KEY + uid.encode(), None)

    def seek_requests(self, seeks: Mapping[str, Seek], now: float) -> tuple[SeekRequest, ...]:
        """Returns the requests that count: those of recorded seeks, and new ones that are not too old. `now`: Unix
        seconds."""
        requests = self._table.seek_requests.values()
        return tuple(
            request for request in requests if request.id in seeks or abs(now - request.time) <= REQUEST_LIVES_S
        )

    def drop_seek_requests(self, seeks: Mapping[str, Seek], now: float) -> None:
        """Drop requests whose seek is over, and those that are too old to begin."""
        count = {seek_request.id for seek_request in self.seek_requests(seeks, now)}
        for id_ in self._table.seek_requests:
            if id_ not in count or (id_ in seeks and seeks[id_].is_over):
                self._send(SEEK_KEY + id_.encode(), None)

    def silent(self, now_s: float) -> frozenset[str]:
        """Returns workers whose record has not changed for `silent_s`, by our own clock: theirs may differ. `now_s`: of
        a clock that never goes back."""
        self._heard = {
            name: before if (before := self._heard.get(name)) and before[0] == worker.time else (worker.time, now_s)
            for name, worker in self._table.workers.items()
        }
        return frozenset(name for name, (_, since) in self._heard.items() if now_s - since >= self._silent_s)

    def sweep(self, now_s: float) -> None:
        """Remove the records of workers that have been silent for long. `now_s`: as for `silent`."""
        self.silent(now_s)
        for name, (_, since) in self._heard.items():
            if now_s - since >= SILENT_S:
                log.info(
                    "the record of a worker that no longer runs is removed", gone=name, silent_s=round(now_s - since)
                )
                for key in keys_of(self._table.workers[name]):
                    self._send(key, None)

    def _send(self, key: bytes, value: bytes | None) -> None:
        self._produce.send(self._topic, value, key, [], _stored, 0)


def _stored(failure: ProduceFailure | None) -> None:
    if failure is not None:
        log.debug("the controller's report was not stored", reason=failure.message)
