"""Writes statuses to the API server: by server-side apply to the status subresource, only those that have changed.

    status -> as the live object has it? -> nothing
                 `-> apply, with the uid and the version that the decision was made from -> Events
                        `-> 409: somebody has changed the object, and the next decision sees it
                        `-> failed: tried again after a pause that grows, for each object its own

The version is the fence: what a leader writes that was stopped meanwhile does not fit any more. Event loop only.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from controller.kube.api_server import APPLY, FIELD_MANAGER, ApiServer, in_turns
from controller.kube.errors import CONFLICT, FORBIDDEN, NOT_FOUND, ApiError
from controller.model import FileProblem, Record, Trouble
from controller.plan.actions import WriteStatus
from controller.status.changes import log_changes
from controller.status.cluster.changes import EventDraft, event_object, events, status_document
from controller.timing import FIRST_PAUSE_S, LONGEST_WRITE_PAUSE_S
from knative.backoff import exponential_s
from knative.resources.conditions import conditions_of

log = structlog.get_logger(__name__)

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object as it was read last."""

    raw: Raw
    path: str
    api_version: str
    put: Callable[[Raw], object]  #: takes the answer to a write


Live = Callable[[str, str, str], LiveObject | None]  #: by kind, namespace and name


@dataclass(slots=True)
class _Failure:
    tries: int = 0
    not_before_s: float = 0.0
    why: str = ""
    object: str = ""
    since: float = 0.0  #: Unix seconds


class ClusterStatus:
    """See `controller.status.interface`."""

    def __init__(self, api: ApiServer, live: Live, may_write: Callable[[], bool], reporter: str) -> None:
        """`may_write`: whether this process has the Lease, asked before each write."""
        self._api = api
        self._live = live
        self._may_write = may_write
        self._reporter = reporter
        self._failures: dict[str, _Failure] = {}  #: by uid
        #: by uid: (what was written, what the server made of it); a CRD may drop fields that it does not know
        self._written: dict[str, tuple[object, object]] = {}
        #: by uid: (a status, the live object that said so already). Most do, at every look.
        self._said: dict[str, tuple[WriteStatus, Raw]] = {}
        self._no_events = False
        self._conflicts: set[str] = set()  #: uids of what had changed when it was written

    async def check(self) -> None:
        """There is nothing to check: an API server that is away comes back."""

    async def begin(self) -> None:
        """Forget what an earlier term has written."""
        self._failures.clear()
        self._written.clear()
        self._said.clear()

    async def write_problems(self, problems: Sequence[FileProblem]) -> None:
        """Does nothing: problems are in the log and in the status topic."""

    async def write(
        self,
        statuses: Sequence[WriteStatus],
        retained: Sequence[Record],
        now: float,
        only: Collection[str] | None = None,
    ) -> frozenset[str]:
        """Write those that differ from the live objects, some at the same time."""
        due = []
        for status in statuses:
            live = self._live(status.kind, status.namespace, status.name)
            if live is not None and (document := self._due(status, live, now)) is not None:
                due.append((status, live, document))
        self._conflicts.clear()
        await in_turns(lambda row: self._apply(*row, now), due)
        uids = {status.uid for status in statuses}
        for by_uid in (self._failures, self._written, self._said):
            for uid in [uid for uid in (by_uid if only is None else only) if uid not in uids]:
                by_uid.pop(uid, None)
        return frozenset(uids & (self._failures.keys() | self._conflicts))

    def _due(self, status: WriteStatus, live: LiveObject, now: float) -> dict[str, Any] | None:
        """Returns the document to write now, or None."""
        metadata, present = live.raw["metadata"], live.raw.get("status")
        if metadata.get("uid") != status.uid or metadata.get("generation", 1) != status.generation:
            return None  # the decision was about another object, or another spec
        said = self._said.get(status.uid)
        if said is not None and said[1] is live.raw and said[0] == status:
            return None
        document = status_document(status, present, now)
        if document == present or self._written.get(status.uid) == (document, present):
            self._said[status.uid] = status, live.raw
            return None
        failure = self._failures.get(status.uid)
        return None if failure is not None and time.monotonic() < failure.not_before_s else document

    async def _apply(self, status: WriteStatus, live: LiveObject, document: dict[str, Any], now: float) -> None:
        if not self._may_write():
            return
        body = {
            "apiVersion": live.api_version,
            "kind": status.kind,
            "metadata": {
                "namespace": status.namespace,
                "name": status.name,
                "uid": status.uid,
                "resourceVersion": live.raw["metadata"].get("resourceVersion"),
            },
            "status": document,
        }
        params: dict[str, str | int] = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            answer = await self._api.request("PATCH", f"{live.path}/status", params, body, APPLY)
        except ApiError as problem:
            if self._failed(status, problem) and problem.status == FORBIDDEN:
                await self._tell(EventDraft(True, "StatusForbidden", problem.why), status, live.api_version, now)
            return
        self._failures.pop(status.uid, None)
        self._written[status.uid] = (document, answer.get("status"))
        live.put(answer)
        before, after = conditions_of(live.raw.get("status")), conditions_of(document)
        log_changes(status, before, after)
        for draft in events(before, after):
            await self._tell(draft, status, live.api_version, now)

    def troubles(self) -> list[Trouble]:
        """Returns statuses that cannot be written."""
        return [Trouble("status", failure.object, failure.since, failure.why) for failure in self._failures.values()]

    def _failed(self, status: WriteStatus, problem: ApiError) -> bool:
        """Returns whether that is news."""
        if problem.status in (CONFLICT, NOT_FOUND):
            self._conflicts.add(status.uid)
            return False  # the watch brings the change, and then the next decision
        label = f"{status.kind} {status.namespace}/{status.name}"
        failure = self._failures.setdefault(status.uid, _Failure(object=label, since=time.time()))
        pause_s = max(exponential_s(failure.tries, FIRST_PAUSE_S, LONGEST_WRITE_PAUSE_S), problem.retry_after_s)
        failure.tries += 1
        failure.not_before_s = time.monotonic() + pause_s
        if failure.why == problem.why:
            return False
        failure.why = problem.why
        resource = f"{status.namespace}/{status.name}"
        log.error("status cannot be written", kind=status.kind, resource=resource, reason=str(problem))
        return True

    async def _tell(self, draft: EventDraft, status: WriteStatus, api_version: str, now: float) -> None:
        """Events are best effort: one that is not stored is not sent again."""
        name = f"{status.name[:220]}.{secrets.token_hex(8)}"
        body = event_object(draft, status, api_version, name, now, self._reporter)
        try:
            await self._api.request("POST", f"/apis/events.k8s.io/v1/namespaces/{status.namespace}/events", {}, body)
        except ApiError as problem:
            if problem.status == FORBIDDEN and self._no_events:
                return  # said once; a namespace that is being deleted takes no Events either
            self._no_events = problem.status == FORBIDDEN
            log.warning("a Kubernetes Event was not stored", reason=str(problem))
