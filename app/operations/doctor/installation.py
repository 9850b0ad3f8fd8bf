"""What workers and the controller report in Kafka: who runs, which versions, which clocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from app.operations.contract_snapshot import Contract
from app.operations.doctor.check import CLOCK_S, START_CONTROLLER, Answer, clock, ok, problem, skipped, some, warning
from app.operations.plural import count
from knative.contract.features import needs
from knative.contract.records import WorkerStatus
from tables.status_table import SUBSCRIBER_NOT_IN_FILES


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
    """Returns the workers that have reported since the first snapshot."""
    running: dict[str, Running] = {}
    for before, after in pairwise(snapshots):
        times = {worker.worker: worker.time for worker in before.contract.workers}
        for worker in after.contract.workers:
            if worker.time != times.get(worker.worker):  # it was written between the two snapshots
                late_s, early_s = worker.time - after.seen_s, worker.time - before.seen_s
                running[worker.worker] = Running(worker, max(0.0, late_s) or min(0.0, early_s))
    return list(running.values())


def all_heard(snapshots: Sequence[Snapshot]) -> bool:
    """Returns whether every worker of the first snapshot has reported again, or if it had none, one has reported."""
    running = {running_worker.status.worker for running_worker in running_workers(snapshots)}
    return bool(running) and {worker.worker for worker in snapshots[0].contract.workers} <= running


def controller_hint(resources: str, kube_context: str, *, elsewhere: bool) -> str:
    """Returns how to start a controller. `elsewhere`: this command was asked about another Kafka or cluster.

    `penstock controller` changes Kafka, so it is advised only where it is certain which resources it would take: not
    those of the cluster that kubectl happens to use.
    """
    certain = resources and (kube_context or not resources.startswith("cluster:"))
    if certain and not elsewhere:
        return "start one: `penstock controller`"
    return START_CONTROLLER


@dataclass(frozen=True)
class Installation:
    """What it reports. `version`: of this command; `controllers`: members of their lock group, None = not known;
    `start_controller`: see `controller_hint`."""

    snapshots: Sequence[Snapshot]
    version: str
    controllers: int | None
    start_controller: str

    @property
    def contract(self) -> Contract:
        """The newest contract."""
        return self.snapshots[-1].contract

    @cached_property
    def running(self) -> Sequence[Running]:
        """The workers that run."""
        return running_workers(self.snapshots)


def workers(installation: Installation) -> Iterable[Answer]:
    """Says whether events are delivered, and with which settings."""
    running = installation.running
    if running:
        yield ok(f"{count(len(running), 'worker')} of role all or dispatcher")
    elif installation.contract.subscriptions:
        hint = "start one: `penstock worker --role dispatcher`"
        yield problem("no worker delivers events (role all or dispatcher)", hint)
    else:
        yield ok("none of role all or dispatcher, and nothing to deliver")
    for worker in running:
        if worker.status.unused is not None:
            hint = "correct it; the worker goes on with what it had, and tries again"
            yield warning(f"{worker.status.worker} does not use what has changed: {worker.status.unused}", hint)


def controllers(installation: Installation) -> Iterable[Answer]:
    """Says whether a controller runs."""
    if installation.controllers is None:
        yield skipped("Kafka does not describe their group")
    elif installation.controllers:
        yield ok(f"{count(installation.controllers, 'controller')} in the leader election")
    else:
        yield warning("none runs, so changes of resources wait", installation.start_controller)


def ingress(_: Installation) -> Iterable[Answer]:
    """Says why processes of role ingress are not checked."""
    yield skipped("processes of role ingress report nothing in Kafka; their metrics have their version")


def versions(installation: Installation) -> Iterable[Answer]:
    """Compares those of all that reports, and names workers that do not know what a resource needs."""
    yield _versions(installation)
    needed: dict[str, str] = {}
    for entry in installation.contract.records:
        for feature in needs(entry):
            needed.setdefault(feature, f"{entry.kind} {entry.namespace}/{entry.name}")
    for worker in installation.running:
        missing = [f"{name} ({example})" for name, example in needed.items() if name not in worker.status.features]
        if missing:
            yield problem(f"worker {worker.status.worker} does not know {', '.join(missing)}", "update this worker")


def _versions(installation: Installation) -> Answer:
    reporters: dict[str, list[str]] = {}
    for worker in installation.running:
        reporters.setdefault(worker.status.version, []).append(worker.status.worker)
    if (report := installation.contract.report) is not None:
        reporters.setdefault(report.version, []).append("the controller's last report")
    mine = installation.version
    others = {name: who for name, who in reporters.items() if name != mine}
    if not others:
        return ok(f"{mine}, of this command" + (" and of all that reports in Kafka" if reporters else ""))
    texts = [f"{some(sorted(who))}: {name}" for name, who in sorted(others.items())]
    hint = "update all processes of an installation; see CHANGELOG.md"
    return warning(f"this command has {mine}, but {'; '.join(texts)}", hint)


def clocks(installation: Installation) -> list[Answer]:
    """Names those that are wrong, or says that all are right."""
    answers = [clock(f"the clock of {worker.status.worker}", worker.ahead_s) for worker in installation.running]
    wrong = [answer for answer in answers if answer.hint]
    right = f"{count(len(answers), 'clock')} within {CLOCK_S:g} s of this machine's"
    return wrong or ([ok(right)] if answers else [])


def rejected(installation: Installation) -> Iterable[Answer]:
    """Says what the controller has rejected, if it has reported."""
    report = installation.contract.report
    if report is None:
        yield warning("no controller has reported yet", installation.start_controller)
        return
    bad: dict[str, list[str]] = {}
    for resource in report.problems:
        if resource.ready == "False":
            verb = "finds no file of" if resource.reason == SUBSCRIBER_NOT_IN_FILES else "rejects or cannot read"
            place = "the directory" if resource.name == "." else resource.name
            name = f"{resource.kind} {resource.namespace}/{place}" if resource.namespace else place
            bad.setdefault(verb, []).append(name)
    for verb, names in bad.items():
        yield warning(f"the controller {verb} {some(names)}", "`penstock status` says why")
