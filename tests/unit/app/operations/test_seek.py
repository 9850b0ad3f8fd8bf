"""What a seek waits for, as its command says it."""

from __future__ import annotations

from dataclasses import replace

from app.operations.contract_snapshot import Contract
from app.operations.seek import waiting_for
from knative.contract.records import Subscription, WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.seeks import Seek, SeekPhase
from knative.delivery.policy import Addressable
from tables.status_table import FRESH_S

NOW = 1000.0
RECORD = Subscription(
    *("u", 1, "ns", "billing", "c", "orders", "t", "t.dlq", 1, "g"), Addressable("http://h/"), seek="q", stopped=True
)
SEEK = Seek("q", "", "Subscription", "ns", "billing", "latest", SeekPhase.STOPPING, NOW, "u", "t", "g")


def _worker(name: str, state: WorkerState, reason: str = "", time: float = NOW) -> WorkerStatus:
    return WorkerStatus(name, time, "all", {"u": WorkerSubscription(1, (), state, reason)})


def test_names_the_workers_that_run_and_have_not_stopped() -> None:
    workers = (
        _worker("busy", WorkerState.RUNNING),
        _worker("gone", WorkerState.RUNNING, time=NOW - FRESH_S - 1),
        _worker("stopped", WorkerState.STOPPED, "q"),
        _worker("stopped-before", WorkerState.STOPPED, "another"),
    )
    found = waiting_for(SEEK, RECORD, Contract((), (RECORD,), workers), NOW, FRESH_S)
    assert found == ["worker busy has not stopped it yet", "worker stopped-before has not stopped it yet"]


def test_before_workers_were_asked() -> None:
    record = replace(RECORD, stopped=False)
    assert waiting_for(SEEK, record, Contract((), (record,), ()), NOW, FRESH_S) == ["workers are asked to stop it"]
