"""Makes all checks, in the order in which a person would. A check that fails to run does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from app.operations.contract_snapshot import read_contract
from app.operations.doctor.ask_kafka import ask_kafka, ask_topics
from app.operations.doctor.check import Check, failure, ok, problem, some, warning
from app.operations.doctor.installation import Snapshot, all_heard, controller_hint, installation_checks
from app.operations.doctor.kafka import kafka_checks, on_this_machine
from app.operations.doctor.topics import topic_checks, wanted_topics
from app.operations.plural import count
from app.settings.fields import REPORT_MAX_S
from app.settings.load import Settings
from app.worker.controller_config import controller_config
from controller.validation import validate
from knative.errors import PenstockError
from tables.timing import SPARING_S

SETTINGS, INSTALLATION, RESOURCES = "settings", "installation", "resources"


def examine(settings: Settings, client: Mapping[str, Any] | None, context: str) -> list[Check]:
    """All checks; without a client, those that need no Kafka. `context`: of the kubeconfig; given = look at a cluster
    whatever the settings say."""
    checks = _settings(settings)
    if client is not None:
        checks += _kafka(settings, client, context)
    if context or settings.namespaces is not None:
        from app.operations.doctor.ask_cluster import ask_cluster  # takes a second
        from app.operations.doctor.cluster import cluster_checks

        return [*checks, *cluster_checks(ask_cluster(settings, context), settings.subscriptions)]
    return [*checks, _directory(settings)]


def _settings(settings: Settings) -> list[Check]:
    if settings.warnings:
        return [warning(SETTINGS, text, "correct or unset it") for text in settings.warnings]
    given = sorted(settings.sources)
    return [
        ok(
            SETTINGS,
            f"valid; changed from the default: {count(len(given), 'setting')}" if given else "valid; all defaults",
        )
    ]


def _kafka(settings: Settings, client: Mapping[str, Any], context: str) -> list[Check]:
    facts = ask_kafka(client, settings.instance)
    checks = kafka_checks(facts, settings.group_protocol)
    if facts.problem:
        return checks
    contract = None
    try:
        snapshots = _listen(settings, client)
        contract = snapshots[-1].contract
        elsewhere = facts.bootstrap != settings.kafka or context not in ("", settings.kube_context)
        start = controller_hint(settings.resources, settings.kube_context, elsewhere=elsewhere)
        checks += installation_checks(snapshots, version("penstock"), facts.controllers, start)
    except PenstockError as error:
        checks.append(failure(INSTALLATION, error))
    wanted = wanted_topics(
        controller_config(settings, client), contract, settings.traffic, settings.traffic_retention_s
    )
    try:
        there = ask_topics(client, [one.name for one in wanted])
    except PenstockError as error:
        return [*checks, failure("topics", error)]
    return [*checks, *topic_checks(wanted, there, laptop=on_this_machine(facts.bootstrap))]


def _listen(settings: Settings, client: Mapping[str, Any]) -> list[Snapshot]:
    """Until every worker has reported once more, as often as they may be set to. Raises PenstockError."""
    snapshots: list[Snapshot] = []
    end_s = time.monotonic() + 1.5 * REPORT_MAX_S
    while not snapshots or (not all_heard(snapshots) and time.monotonic() < end_s):
        if snapshots:
            time.sleep(SPARING_S)
        contract = read_contract(client, settings.instance)
        snapshots.append(Snapshot(time.time(), contract))
    return snapshots


def _directory(settings: Settings) -> Check:
    folder = settings.resources_dir
    if folder is None:
        return ok(RESOURCES, "PENSTOCK_RESOURCES is not set here: files of resources are not checked")
    try:
        found = validate(controller_config(settings, {}))
    except PenstockError as error:
        return failure(RESOURCES, error)
    hint = f"`penstock validate {folder}` says what is wrong"
    if found.errors:
        places = [f"{one.file}:{one.line}" if one.line else one.file for one in found.errors]
        return problem(RESOURCES, f"{folder}: {count(len(found.errors), 'error')}, in {some(places)}", hint)
    if found.problems:
        return warning(RESOURCES, f"{folder}: {count(len(found.problems), 'warning')}", hint)
    return ok(RESOURCES, f"{folder}: {count(len(found.objects), 'object')}, all valid")
