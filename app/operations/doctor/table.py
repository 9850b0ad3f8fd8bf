"""All checks, in the order in which a person would make them: name, question, and what answers it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from app.operations.doctor import cluster, installation, kafka, topics
from app.operations.doctor.check import Answer, failure, ok, problem, skipped, some, warning
from app.operations.plural import count
from app.settings.load import Settings
from controller.validation import Found
from knative.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Resources:
    """The directory of resources. None: the setting is empty."""

    folder: Path | None = None
    content: Found | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known. None: nobody has asked, or it has `failed`."""

    settings: Settings | None = None
    kafka: kafka.KafkaFacts | None = None
    installation: installation.Installation | None = None
    topics: topics.Topics | None = None
    cluster: cluster.ClusterFacts | None = None
    resources: Resources | None = None
    failed: Mapping[str, PenstockError] = field(default_factory=dict)  #: name of a check -> why it could not be made


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table. Without its facts it has no answer."""

    name: str
    question: str
    facts: Callable[[Facts], Any]  #: None = these facts are missing
    answers: Callable[[Any], Iterable[Answer]]


def answers(facts: Facts) -> Iterator[tuple[Check, Answer]]:
    """Yields the lines of `penstock doctor`."""
    for check in CHECKS:
        if check.name in facts.failed:
            yield check, failure(facts.failed[check.name])
        elif (part := check.facts(facts)) is not None:
            yield from ((check, answer) for answer in check.answers(part))


def _settings(settings: Settings) -> Iterable[Answer]:
    if settings.warnings:
        return [warning(text, "correct or unset it") for text in settings.warnings]
    given = len(settings.sources)
    return [ok(f"valid; changed from the default: {count(given, 'setting')}" if given else "valid; all defaults")]


def _resources(resources: Resources) -> Iterable[Answer]:
    folder, content = resources.folder, resources.content
    hint = f"`penstock validate {folder}` says what is wrong"
    if content is None:
        yield skipped("PENSTOCK_RESOURCES is not set here")
    elif content.errors:
        places = [f"{error.file}:{error.line}" if error.line else error.file for error in content.errors]
        yield problem(f"{folder}: {count(len(content.errors), 'error')}, in {some(places)}", hint)
    elif content.problems:
        yield warning(f"{folder}: {count(len(content.problems), 'warning')}", hint)
    else:
        yield ok(f"{folder}: {count(len(content.objects), 'object')}, all valid")


_KAFKA, _HERE, _CLUSTER = attrgetter("kafka"), attrgetter("installation"), attrgetter("cluster")
_CLOCK = "Does it agree with this machine's?"


def _never(_: Facts) -> None:
    """Only a failure is worth a line."""


CHECKS = (
    Check("settings", "Are all values valid, and all names settings?", attrgetter("settings"), _settings),
    Check("Kafka secret", "Can it be used?", _never, list),
    Check("Kafka", "Does it answer, and can its release do what the settings ask for?", _KAFKA, kafka.release_of),
    Check("topics on demand", "Does Kafka create each topic that a client asks for?", _KAFKA, kafka.topics_on_demand),
    Check("clock of Kafka", _CLOCK, _KAFKA, kafka.clock_of),
    Check("installation", "Does Kafka have the topics of this instance?", _never, list),
    Check("workers", "Does a worker deliver events, and with the newest settings?", _HERE, installation.workers),
    Check("controllers", "Does a controller run?", _HERE, installation.controllers),
    Check("ingress", "Which processes accept events?", _HERE, installation.ingress),
    Check("versions", "Do all have one version, and does it know what resources need?", _HERE, installation.versions),
    Check("clocks of workers", "Do they agree with this machine's?", _HERE, installation.clocks),
    Check("rejected", "Does the controller accept all resources?", _HERE, installation.rejected),
    Check("topics", "Are they as Penstock creates them?", attrgetter("topics"), topics.differences),
    Check("API server", "Does it answer?", _CLUSTER, cluster.server),
    Check("clock of the API server", _CLOCK, _CLUSTER, cluster.clock_of),
    Check("namespaces", "Do the namespaces of the settings exist?", _CLUSTER, cluster.namespaces),
    Check("CRDs", "Are they installed, and are they of this version of Penstock?", _CLUSTER, cluster.crds),
    Check("subscriptions", "Who resolves them?", _CLUSTER, cluster.who_resolves),
    Check("Lease", "Does a controller lead?", _CLUSTER, cluster.lease),
    Check("permissions", "May this user do what the controller does?", _CLUSTER, cluster.permissions),
    Check("resources", "Is the directory valid?", attrgetter("resources"), _resources),
)
