"""What workers and the controller report in Kafka: who runs, which versions, which clocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.operations.contract_snapshot import Contract
from app.operations.doctor.check import Check, clock, ok, problem, some, warning
from app.operations.plural import count
from knative.contract.features import needs
from knative.contract.records import WorkerState, WorkerStatus

WORKERS, INGRESS, CONTROLLERS, VERSIONS = "workers", "ingress", "controllers", "versions"
CLOCKS, REJECTED = "clocks of workers", "rejected"
_INGRESS = "not checked: processes of role ingress report nothing in Kafka; their metrics have their version"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is in Kafka at a time of this machine's clock."""

    seen_s: float
    contract: Contract


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that has reported between two snapshots, whatever its clock says. `ahead_s`: of its clock, at least;
    negative = behind."""

    status: WorkerStatus
    ahead_s: float


def running_workers(snapshots: Sequence[Snapshot]) -> list[Running]:
    """Those that have reported since the first snapshot."""
    found: dict[str, Running] = {}
    for before, after in pairwise(snapshots):
        known = {one.worker: one.time for one in before.contract.workers}
        for one in after.contract.workers:
            if one.time != known.get(one.worker):  # it was written between the two snapshots
                late_s, early_s = one.time - after.seen_s, one.time - before.seen_s
                found[one.worker] = Running(one, max(0.0, late_s) or min(0.0, early_s))
    return list(found.values())


def all_heard(snapshots: Sequence[Snapshot]) -> bool:
    """Whether every worker of the first snapshot has reported again, or if it had none, one has reported."""
    running = {one.status.worker for one in running_workers(snapshots)}
    return bool(running) and {one.worker for one in snapshots[0].contract.workers} <= running


def controller_hint(resources: str, kube_context: str, *, elsewhere: bool) -> str:
    """How to start a controller, from the settings. `elsewhere`: this command was asked about another Kafka or cluster.

    `penstock controller` changes Kafka, so it is advised only where it is certain which resources it would take: not
    those of the cluster that kubectl happens to use.
    """
    certain = resources and (kube_context or not resources.startswith("cluster:"))
    if certain and not elsewhere:
        return "start one: `penstock controller`"
    return "start the controller of this installation"


def installation_checks(
    snapshots: Sequence[Snapshot], version: str, controllers: int | None, start_controller: str
) -> list[Check]:
    """All checks of what is reported. `version`: of this command; `controllers`: members of their lock group, None =
    not known; `start_controller`: see `controller_hint`."""
    contract, running = snapshots[-1].contract, running_workers(snapshots)
    return [
        *_who_runs(contract, running, controllers, start_controller),
        ok(INGRESS, _INGRESS),
        _versions(contract, running, version),
        *_features(contract, running),
        *_unused(running),
        *_clocks(running),
        *_rejected(contract, start_controller),
    ]


def _who_runs(
    contract: Contract, running: Sequence[Running], controllers: int | None, start_controller: str
) -> list[Check]:
    if running:
        delivers = ok(WORKERS, f"{count(len(running), 'worker')} of role all or dispatcher")
    elif contract.subscriptions:
        hint = "start one: `penstock worker --role dispatcher`"
        delivers = problem(WORKERS, "no worker delivers events (role all or dispatcher)", hint)
    else:
        delivers = ok(WORKERS, "none of role all or dispatcher, and nothing to deliver")
    if controllers is None:
        return [delivers, ok(CONTROLLERS, "not known: Kafka does not describe their group")]
    if controllers:
        return [delivers, ok(CONTROLLERS, f"{count(controllers, 'controller')} in the election in Kafka")]
    found = "none runs, so changes of resources wait"
    return [delivers, warning(CONTROLLERS, found, start_controller)]


def _versions(contract: Contract, running: Sequence[Running], version: str) -> Check:
    found: dict[str, list[str]] = {}
    for one in running:
        found.setdefault(one.status.version, []).append(one.status.worker)
    if contract.report is not None:
        found.setdefault(contract.report.version, []).append("the controller's last report")
    others = {name: who for name, who in found.items() if name != version}
    if not others:
        return ok(VERSIONS, f"this command has {version}" + (", and so has all that reports in Kafka" if found else ""))
    texts = [f"{some(sorted(who))}: {name or 'one that does not say'}" for name, who in sorted(others.items())]
    hint = "update all processes of an installation; see CHANGELOG.md"
    return warning(VERSIONS, f"this command has {version}, but {'; '.join(texts)}", hint)


def _features(contract: Contract, running: Sequence[Running]) -> list[Check]:
    """Workers that leave something alone, because they do not know what it needs."""
    needed: dict[str, str] = {}
    for entry in contract.records:
        for feature in needs(entry):
            needed.setdefault(feature, f"{entry.kind} {entry.namespace}/{entry.name}")
    checks = []
    for one in running:
        missing = _missing(one.status, needed)
        if missing:
            texts = ", ".join(f"{feature} ({example})" if example else feature for feature, example in missing.items())
            checks.append(problem(VERSIONS, f"worker {one.status.worker} does not know {texts}", "update this worker"))
    return checks


def _missing(status: WorkerStatus, needed: Mapping[str, str]) -> dict[str, str]:
    if status.features:
        return {feature: example for feature, example in needed.items() if feature not in status.features}
    left = [one for one in status.subscriptions.values() if one.state is WorkerState.UNSUPPORTED]
    return {one.reason: "" for one in left}


def _unused(running: Sequence[Running]) -> list[Check]:
    hint = "correct it; the worker goes on with what it had, and tries again"
    return [
        warning(WORKERS, f"{worker.status.worker} does not use what has changed: {worker.status.unused}", hint)
        for worker in running
        if worker.status.unused is not None
    ]


def _clocks(running: Sequence[Running]) -> list[Check]:
    checks = [clock(CLOCKS, f"the clock of {one.status.worker}", one.ahead_s) for one in running]
    wrong = [one for one in checks if one.hint]
    return wrong or ([ok(CLOCKS, f"{len(checks)} agree with this machine's")] if checks else [])


def _rejected(contract: Contract, start_controller: str) -> list[Check]:
    if contract.report is None:
        return [warning(REJECTED, "no controller has reported yet", start_controller)]
    bad = [one for one in contract.report.problems if one.ready == "False"]
    if not bad:
        return []
    names = [f"{one.kind} {one.namespace}/{one.name}" if one.namespace else one.name for one in bad]
    return [warning(REJECTED, f"the controller rejects or cannot read {some(names)}", "`penstock status` says why")]
