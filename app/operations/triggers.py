"""Finds a Trigger by its name, in the contract or in resource files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.operations.contract_snapshot import Contract
from app.operations.unknown_name import known_names, meant
from controller.plan.specs import of_trigger
from controller.source.directory import Directory, Snapshot
from knative.contract.records import TRIGGER
from knative.delivery.policy import DeliveryOrder
from knative.errors import UsageError
from knative.filters import Filter
from knative.resources.values import Broker, Trigger


@dataclass(frozen=True, slots=True)
class TriggerView:
    """What matters of a Trigger when an event comes."""

    namespace: str
    name: str
    filter: Filter
    order: DeliveryOrder

    @property
    def label(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def trigger_in_contract(contract: Contract, wish: str) -> TriggerView:
    """Returns the Trigger NAME or NAMESPACE/NAME. Raises UsageError if there is none, or if several have the name."""
    views = [
        TriggerView(subscription.namespace, subscription.name, subscription.filter, subscription.order)
        for subscription in contract.subscriptions
        if subscription.kind == TRIGGER
    ]
    return _chosen(views, wish, "")


def trigger_in_files(folder: Path, wish: str, namespace: str = "") -> TriggerView:
    """Returns the Trigger from YAML or JSON files, without Kafka. A file with a problem that may hide the Trigger is a
    UsageError too. `namespace` "" = any."""
    directory = Directory(folder)
    directory.check()
    snapshot = directory.scan()
    resources = [object_.resource for object_ in snapshot.objects]
    brokers = {(resource.namespace, resource.name): resource for resource in resources if isinstance(resource, Broker)}
    views = []
    for resource in resources:
        if isinstance(resource, Trigger) and namespace in ("", resource.namespace):
            spec = of_trigger(resource, brokers.get((resource.namespace, resource.broker)))
            views.append(TriggerView(resource.namespace, resource.name, spec.filter, spec.order))
    if not _named(views, wish):
        _check_problems(snapshot, folder)
    return _chosen(views, wish, f" in {folder}")


def _check_problems(snapshot: Snapshot, folder: Path) -> None:
    for problem in snapshot.problems:
        if not problem.ignored or problem.suspected_typo:
            place = f"{folder / problem.file}:{problem.line}"
            field = f"{problem.field} " if problem.field else ""
            hint = problem.hint[:1].upper() + problem.hint[1:] + "." if problem.hint else ""
            raise UsageError(f"{place}: {field}{problem.what}.", hint)


def _chosen(triggers: Sequence[TriggerView], wish: str, where: str) -> TriggerView:
    matches = _named(triggers, wish)
    if len(matches) == 1:
        return matches[0]
    if matches:
        labels = ", ".join(trigger_view.label for trigger_view in matches)
        raise UsageError(f"{len(matches)} triggers have the name {wish}{where}: {labels}.", "Write NAMESPACE/NAME.")
    names = sorted(trigger.label for trigger in triggers)
    hint = meant(wish, names)
    raise UsageError(f"There is no trigger {wish}{where}; {known_names(names)}", hint)


def _named(triggers: Sequence[TriggerView], wish: str) -> list[TriggerView]:
    return [
        trigger
        for trigger in triggers
        if wish in (trigger.label, trigger.name) or wish.lower() == f"trigger/{trigger.label}".lower()
    ]
