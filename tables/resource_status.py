"""Whether each resource is ready and why not, from the contract and the reports of workers and controller. Pure.

`penstock status` and the console show the same values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from knative.contract.records import (
    BROKER,
    CHANNEL,
    SUBSCRIPTION,
    TRIGGER,
    Channel,
    ControllerReport,
    ResourceProblem,
    Subscription,
    WorkerStatus,
)
from knative.resources.conditions import Condition, ConditionStatus, ready, true, with_note
from tables.status_table import FRESH_S, serving, subscriber_details
from tables.subscriber_details import SubscriberDetails

WORKER, MORE = "Worker", "More"  #: kinds of what is not a resource, and has a problem

SECRET_READY = "KafkaSecretReady"  #: only of a Broker with a Secret of its own
_TOPICS, _SINK = ("TopicReady", "ContractPublished", "Addressable"), "DeadLetterSinkResolved"
#: Kind -> the conditions that its `Ready` is made of, as the controller writes them.
PARTS = {
    CHANNEL: (*_TOPICS, "SubscribersReady", _SINK),
    BROKER: (*_TOPICS, SECRET_READY, _SINK),
    SUBSCRIPTION: ("ReferencesResolved", "AddedToChannel", "ChannelReady"),
    TRIGGER: ("BrokerReady", "SubscriberResolved", _SINK, "Subscribed", "DependencyReady"),
}
#: Those that say whether workers serve it.
_SERVED = {CHANNEL: "SubscribersReady", SUBSCRIPTION: "ChannelReady", TRIGGER: "Subscribed"}


class Installation(Protocol):
    """What Kafka holds of an installation, at one moment."""

    @property
    def channels(self) -> Sequence[Channel]:
        """Channels and brokers."""

    @property
    def subscriptions(self) -> Sequence[Subscription]:
        """Subscriptions and Triggers."""

    @property
    def workers(self) -> Collection[WorkerStatus]:
        """The latest record of each worker."""

    @property
    def report(self) -> ControllerReport | None:
        """That of the leading controller; None = none has published one yet."""


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """One resource, or a file or worker with a problem."""

    kind: str
    namespace: str
    name: str
    ready: Condition
    channel: Channel | None = None  #: of a channel or broker that was served once
    subscription: Subscription | None = None  #: of a subscription or trigger that was served once
    details: SubscriberDetails | None = None  #: of that one
    problem: ResourceProblem | None = None  #: what the controller reports about it
    served: tuple[Condition, ...] = ()  #: what workers report about it, or about each of its subscriptions

    @property
    def label(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def resource_statuses(here: Installation, now_s: float) -> Iterator[ResourceStatus]:
    """Yields a status for each subscription, then for each channel, then for what the controller rejects and was never
    served.

    A resource is ready if neither controller nor workers object.
    """
    report = here.report
    reported = report.problems if report is not None else ()
    problems = {(problem.kind, problem.namespace, problem.name): problem for problem in reported}
    foreign = frozenset(report.foreign if report is not None else ())
    parts: dict[str, list[Condition]] = {}
    workers = [worker for worker in here.workers if now_s - worker.time <= FRESH_S]
    for subscription in here.subscriptions:
        name = subscription.key
        details = subscriber_details(subscription, workers, now_s)
        label = f"{subscription.kind} {subscription.namespace}/{subscription.name}"
        parts.setdefault(subscription.channel_uid, []).append(serving("Ready", details.status, label))
        problem = problems.pop(name, None) or _not_here(subscription, foreign)
        served: tuple[Condition, ...] = (serving("Ready", details.status),)
        yield ResourceStatus(*name, _ready(problem, served), None, subscription, details, problem, served)
    for channel in here.channels:
        name = channel.key
        problem = problems.pop(name, None) or _not_here(channel, foreign)
        served = tuple(parts.get(channel.uid, ()))
        yield ResourceStatus(*name, _ready(problem, served), channel, problem=problem, served=served)
    for name, problem in problems.items():
        yield ResourceStatus(*name, _ready(problem), problem=problem)
    for worker in workers:
        if worker.unused is not None:
            more = f"the worker does not use changed settings, secrets or code: {worker.unused}"
            yield ResourceStatus(
                WORKER, "", worker.worker, Condition("Ready", ConditionStatus.TRUE, "ChangesNotUsed", more)
            )
    if report is not None and report.left_out:
        more = f"{report.left_out} more objects or files have problems; see the controller's log"
        yield ResourceStatus(MORE, "", "(and more)", Condition("Ready", ConditionStatus.FALSE, "NoRoom", more))


def conditions_of(status: ResourceStatus) -> list[Condition]:
    """Returns what its `Ready` is made of. Empty where nobody says it: an older controller reports only the sum of what
    is wrong."""
    problem, served = status.problem, status.served
    if problem is not None and not problem.parts:
        return []
    said = {} if problem is None else {type_: (value, *why) for type_, value, *why in problem.parts}
    conditions = []
    for type_ in PARTS.get(status.kind, ()):
        if type_ in said:
            value, reason, message = said[type_]
            conditions.append(Condition(type_, ConditionStatus(value), reason, message))
        elif type_ == _SERVED.get(status.kind):
            conditions.append(replace(with_note(ready(served), served), type=type_))
        elif type_ != SECRET_READY or (status.channel is not None and status.channel.secret):
            conditions.append(true(type_))
    return conditions


def _not_here(record: Channel | Subscription, foreign: Collection[str]) -> ResourceProblem | None:
    """Returns how to remove a resource that is in the contract only; None = it is in a file or in the cluster."""
    remove = f"`penstock remove {record.title}`"
    if record.unlisted:
        what = f"no file contains this resource, so it is not served; add its file again, or delete it with {remove}"
        return ResourceProblem(*record.key, "False", "NotInFiles", what)
    if record.uid in foreign:
        what = f"this resource is served although it is not in the cluster; to remove it: {remove}"
        return ResourceProblem(*record.key, "True", "NotInCluster", what)
    return None


def _ready(problem: ResourceProblem | None, served: Sequence[Condition] = ()) -> Condition:
    """Returns `Ready` from what the controller reports (None = no problem) and the conditions that workers report."""
    said = (
        [] if problem is None else [Condition("Ready", ConditionStatus(problem.ready), problem.reason, problem.message)]
    )
    return with_note(ready([*said, *served]), [*said, *served])  # ready, but possibly with a warning
