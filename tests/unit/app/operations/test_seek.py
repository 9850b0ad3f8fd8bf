"""What a seek waits for, as its command says it, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.operations.contract_snapshot import Contract
from app.operations.seek import Installation, check_no_seek, seek_by_controller, too_late, waiting_for
from knative.contract.records import Subscription, WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.seeks import Move, Seek, SeekPhase, SeekRequest
from knative.delivery.policy import Addressable
from knative.errors import NotReadyError, PenstockError
from tables.status_table import FRESH_S

NOW = 1000.0
RECORD = Subscription(
    *("u", 1, "ns", "billing", "c", "orders", "t", "t.dlq", 1, "g"), Addressable("http://h/"), seek="q", stopped=True
)
SEEK = Seek("q", "", "Subscription", "ns", "billing", "latest", SeekPhase.STOPPING, NOW, "u", "t", "g")


def _worker(name: str, state: WorkerState, reason: str = "", time: float = NOW) -> WorkerStatus:
    return WorkerStatus(name, time, "all", {"u": WorkerSubscription(1, (), state, reason)})


def test_seek_names_the_workers_that_run_and_have_not_stopped() -> None:
    workers = (
        _worker("busy", WorkerState.RUNNING),
        _worker("gone", WorkerState.RUNNING, time=NOW - FRESH_S - 1),
        _worker("stopped", WorkerState.STOPPED, "q"),
        _worker("stopped-before", WorkerState.STOPPED, "another"),
    )
    waits = waiting_for(SEEK, RECORD, Contract((), (RECORD,), workers), NOW, FRESH_S)
    assert waits == [
        "worker busy has not stopped the subscription yet",
        "worker stopped-before has not stopped the subscription yet",
    ]


def test_before_workers_were_asked() -> None:
    record = replace(RECORD, stopped=False)
    assert waiting_for(SEEK, record, Contract((), (record,), ()), NOW, FRESH_S) == [
        "workers are being asked to stop the subscription"
    ]


@dataclass(frozen=True)
class _Controller(Installation):
    """Has one seek while the command waits, and another after it has withdrawn its request."""

    client: Mapping[str, Any] = field(default_factory=dict)
    instance: str = "penstock"
    before: Seek | BaseException | None = None
    after: Seek | None = None
    asked: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)

    def ask(self, request: SeekRequest) -> None:
        self.asked.append(request.id)

    def withdraw(self, id_: str) -> None:
        self.withdrawn.append(id_)

    def seeks(self) -> Mapping[str, Seek]:
        seek = self.after if self.withdrawn else self.before
        if isinstance(seek, BaseException):
            raise seek
        return {} if seek is None else {self.asked[0]: seek}


def _over(**fields: Any) -> Seek:
    return replace(SEEK, **{"phase": SeekPhase.REFUSED, **fields})


def test_seek_that_was_completed_until_it_was_withdrawn_is_reported_as_such() -> None:
    done = _over(phase=SeekPhase.DONE, moves=(Move(0, 5, 9),))
    at = _Controller(before=replace(SEEK, phase=SeekPhase.STARTING), after=done)
    said: list[str] = []
    assert seek_by_controller(at, RECORD, "latest", 0.0, said.append) == done
    assert said == ["starting", "done"]
    assert at.withdrawn == at.asked


def test_seek_that_was_begun_after_the_time_limit_says_that_it_waited_for_a_controller() -> None:
    at = _Controller(before=None, after=_over(reason="Withdrawn"))
    with pytest.raises(NotReadyError, match=r"did not stop within 0 s \(no controller had begun the seek\)\."):
        seek_by_controller(at, RECORD, "latest", 0.0, lambda _: None)


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), PenstockError("a newer Penstock wrote it")])
def test_request_is_withdrawn_when_the_command_ends_early(problem: BaseException) -> None:
    at = _Controller(before=problem)
    with pytest.raises(type(problem)):
        seek_by_controller(at, RECORD, "latest", 60.0, lambda _: None)
    assert at.withdrawn == at.asked


def test_request_that_could_not_be_withdrawn_may_still_be_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error must not say that nothing happened: to seek again would move the offsets twice."""

    def away(self: _Controller, id_: str) -> None:
        raise NotReadyError("Kafka has not confirmed the request (time limit).", "Try again.")

    monkeypatch.setattr(_Controller, "withdraw", away)
    with pytest.raises(NotReadyError, match="may still carry it out") as raised:
        seek_by_controller(_Controller(before=PenstockError("x")), RECORD, "+1", 60.0, lambda _: None)
    assert "Try again." not in raised.value.hint


@pytest.mark.parametrize(
    ("seek", "moved", "says"),
    [
        (None, "nothing was moved", "No controller has begun"),
        (_over(reason="Withdrawn"), "(w). Nothing was moved", "started again"),
        (replace(SEEK, phase=SeekPhase.STARTING, reason="Withdrawn"), "(w). Nothing was moved", "started again"),
        (SEEK, "whether the offsets were moved", "is withdrawn"),
        (replace(SEEK, phase=SeekPhase.MOVING), "not completed within 60 s (w)", "completes the seek"),
        (replace(SEEK, phase=SeekPhase.STARTING), "not completed within 60 s (w)", "completes the seek"),
    ],
)
def test_only_what_is_known_after_the_withdrawal_is_said(seek: Seek | None, moved: str, says: str) -> None:
    text = str(too_late(seek, 60.0, "w"))
    assert moved in text
    assert says in text
    assert ("nothing was moved" in text.lower()) is ("nothing was moved" in moved.lower())


def test_no_direct_seek_while_another_one_is_recorded() -> None:
    over, other = _over(), replace(SEEK, id="o", uid="another")
    check_no_seek({"a": over, "o": other}, RECORD)
    with pytest.raises(NotReadyError, match=r"A seek to latest that penstock seek has asked for has not ended"):
        check_no_seek({"a": over, "q": SEEK}, RECORD)
