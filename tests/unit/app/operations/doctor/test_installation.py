"""What workers and the controller report, as checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.operations.contract_snapshot import Contract
from app.operations.doctor.installation import Installation, Snapshot, all_heard, controller_hint
from app.operations.doctor.table import Facts
from knative.contract.features import SUPPORTED
from knative.contract.records import (
    BROKER,
    TRIGGER,
    Channel,
    ControllerReport,
    ResourceProblem,
    Subscription,
    WorkerStatus,
)
from knative.delivery.policy import Addressable
from tests.unit.app.operations.doctor.rows import Row, rows

NOW, HERE = 1000.0, "1.0"
START = "start it"
EVERY = tuple(sorted(SUPPORTED))
CHANNEL = Channel("c", 1, "ns", "orders", "t", "t.dlq", 1)
TO = Addressable("http://s/")
SUBSCRIPTION = Subscription("s", 1, "ns", "bill", "c", "orders", "t", "t.dlq", 1, "g", TO)
REPORT = ControllerReport(NOW, version=HERE)
CONTRACT = Contract((CHANNEL,), (SUBSCRIPTION,), (), REPORT)


def _worker(role: str = "all", name: str = "w", time: float = NOW, version: str = HERE) -> WorkerStatus:
    return WorkerStatus(name, time, role, version=version, features=EVERY)


def _rows(*snapshots: Snapshot, controllers: int | None = 1) -> list[Row]:
    return rows(Facts(installation=Installation(snapshots, HERE, controllers, START)))


def _made(*workers: WorkerStatus, contract: Contract = CONTRACT) -> list[Row]:
    silent = tuple(replace(worker, time=worker.time - 2) for worker in workers)
    return _rows(
        Snapshot(NOW - 1, replace(contract, workers=silent)), Snapshot(NOW, replace(contract, workers=workers))
    )


def _checks(*workers: WorkerStatus, contract: Contract = CONTRACT) -> list[tuple[str, str, str]]:
    return [(row.level, row.name, row.text) for row in _made(*workers, contract=contract)]


def _hint(name: str, *workers: WorkerStatus, contract: Contract = CONTRACT) -> str:
    """Of the first check with this name that has one."""
    return next(
        (finding.hint for finding in _made(*workers, contract=contract) if finding.name == name and finding.hint), ""
    )


def test_workers_and_controllers_that_run_are_counted() -> None:
    checks = _checks(_worker(), _worker("dispatcher", "d"))
    assert ("ok", "workers", "2 workers of role all or dispatcher") in checks
    assert ("ok", "controllers", "1 controller in the leader election") in checks
    alone = _rows(Snapshot(NOW, CONTRACT), controllers=0)
    assert [(finding.level, finding.name) for finding in alone[:2]] == [
        ("problem", "workers"),
        ("warning", "controllers"),
    ]
    assert [finding.hint for finding in alone[:2]] == ["start one: `penstock worker --role dispatcher`", START]
    unknown = _rows(Snapshot(NOW, CONTRACT), controllers=None)
    assert (unknown[1].level, unknown[1].text) == ("skipped", "Kafka does not describe their group")
    empty = _checks(contract=Contract((), (), (), REPORT))
    assert [level for level, _, _ in empty] == ["ok", "ok", "skipped", "ok"]


def test_worker_that_does_not_use_what_has_changed_is_named() -> None:
    checks = _checks(replace(_worker(), unused="the password is wrong"))
    assert ("warning", "workers", "w does not use what has changed: the password is wrong") in checks
    assert _hint("workers", replace(_worker(), unused="x")).startswith("correct it; the worker goes on with what")


def test_doctor_says_that_it_does_not_see_ingress() -> None:
    """Also while it sees a process that is ingress among others."""
    for workers in ([], [_worker()]):
        ((level, text),) = ((level, text) for level, name, text in _checks(*workers) if name == "ingress")
        assert level == "skipped"
        assert "processes of role ingress report nothing" in text


def test_worker_that_does_not_report_any_more_does_not_run() -> None:
    contract = replace(CONTRACT, workers=(_worker(),))
    lines = _rows(Snapshot(NOW, contract), Snapshot(NOW + 6, contract))
    assert [finding.level for finding in lines if finding.name == "workers"] == ["problem"]


@pytest.mark.parametrize(
    ("version", "level", "says"),
    [
        (HERE, "ok", "of this command and of all that reports in Kafka"),
        ("2.0", "warning", "w: 2.0"),
    ],
)
def test_worker_of_another_version_is_a_warning(version: str, level: str, says: str) -> None:
    ((state, _, text),) = [check for check in _checks(_worker(version=version)) if check[1] == "versions"]
    assert state == level
    assert says in text
    update = "update all processes of an installation; see CHANGELOG.md"
    assert _hint("versions", _worker(version=version)) == (update if level == "warning" else "")


def test_worker_without_a_needed_feature_is_named() -> None:
    broker = Channel("b", 1, "ns", "shop", "t", "t.dlq", 1, kind=BROKER)
    trigger = replace(SUBSCRIPTION, uid="t", name="bill", channel_uid="b", channel="shop", kind=TRIGGER)
    contract = Contract((broker,), (trigger,), (), REPORT)
    old = replace(_worker(), features=("broker",))
    checks = _checks(old, contract=contract)
    assert ("problem", "versions", "worker w does not know trigger (Trigger ns/bill)") in checks
    assert _hint("versions", old, contract=contract) == "update this worker"
    assert not [check for check in _checks(_worker(), contract=contract) if check[0] == "problem"]


@pytest.mark.parametrize(
    ("time", "level", "says"),
    [
        (NOW - 0.5, "ok", "1 clock within 2 s of this machine's"),
        (NOW - 2.9, "ok", "1 clock within 2 s of this machine's"),
        (NOW + 5, "warning", "5.0 s ahead of"),
        (NOW - 31, "problem", "30.0 s behind"),
        (NOW + 3600, "problem", "3600.0 s ahead of"),
    ],
)
def test_clock_of_a_worker(time: float, level: str, says: str) -> None:
    """The record was written between the snapshots: what is left after that is the clock."""
    checks = _checks(_worker(time=time))
    ((clock, _, text),) = [finding for finding in checks if finding[1] == "clocks of workers"]
    assert clock == level
    assert says in text
    hint = _hint("clocks of workers", _worker(time=time))
    assert hint.startswith("synchronize both clocks, as with NTP" if level != "ok" else "")
    assert ("ok", "workers", "1 worker of role all or dispatcher") in checks


def test_listening_ends_when_all_have_reported_again() -> None:
    first = Snapshot(NOW, replace(CONTRACT, workers=(_worker(name="a"), _worker(name="b"))))
    half = Snapshot(NOW + 1, replace(CONTRACT, workers=(_worker(name="a", time=NOW + 1), _worker(name="b"))))
    both = Snapshot(NOW + 2, replace(CONTRACT, workers=(_worker(name="a"), _worker(name="b", time=NOW + 2))))
    assert [all_heard(snapshots) for snapshots in ([first], [first, half], [first, half, both])] == [False, False, True]
    assert not all_heard([Snapshot(NOW, CONTRACT)])
    assert all_heard([Snapshot(NOW, CONTRACT), half])


def test_what_the_controller_rejects() -> None:
    bad = [ResourceProblem("Trigger", "ns", name, "False", "SpecInvalid", "why") for name in "abcd"]
    note = ResourceProblem("File", "", "x.yaml:1", "True", "DocumentLeftOut", "why")
    contract = replace(CONTRACT, report=replace(REPORT, problems=(*bad, note)))
    checks = _checks(_worker(), contract=contract)
    says = "the controller rejects or cannot read Trigger ns/a, Trigger ns/b, Trigger ns/c and 1 more"
    assert ("warning", "rejected", says) in checks
    assert _hint("rejected", _worker(), contract=contract) == "`penstock status` says why"
    gone = ResourceProblem("Trigger", "ns", "old", "False", "NotInFiles", "why")
    away = ResourceProblem("File", "", ".", "False", "InvalidFile", "why")
    checks = _checks(_worker(), contract=replace(CONTRACT, report=replace(REPORT, problems=(gone, away))))
    assert ("warning", "rejected", "the controller finds no file of Trigger ns/old") in checks
    assert ("warning", "rejected", "the controller rejects or cannot read the directory") in checks
    silent = replace(CONTRACT, report=None)
    assert ("warning", "rejected", "no controller has reported yet") in _checks(_worker(), contract=silent)
    assert _hint("rejected", _worker(), contract=silent) == START


@pytest.mark.parametrize(
    ("resources", "kube_context", "elsewhere", "certain"),
    [
        ("file:my-resources", "", False, True),
        ("my-resources", "", False, True),
        ("file:my-resources", "", True, False),
        ("cluster:", "production", False, True),
        ("cluster:", "production", True, False),
        ("cluster:", "", False, False),
        ("", "", False, False),
        ("", "production", False, False),
    ],
)
def test_controller_is_advised_only_for_resources_that_are_certain(
    resources: str, kube_context: str, elsewhere: bool, certain: bool
) -> None:
    hint = controller_hint(resources, kube_context, elsewhere=elsewhere)
    assert hint == ("start one: `penstock controller`" if certain else "start the controller of this installation")
