"""Asks for all facts. One that cannot be had does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

from app.operations.contract_snapshot import Contract, read_contract
from app.operations.doctor.ask_kafka import ask_kafka, ask_topics
from app.operations.doctor.installation import Installation, Snapshot, all_heard, controller_hint
from app.operations.doctor.kafka import KafkaFacts, on_this_machine
from app.operations.doctor.table import Facts, Resources
from app.operations.doctor.topics import Topics, wanted_topics
from app.settings.fields import REPORT_MAX_S
from app.settings.load import Settings
from app.worker.controller_config import controller_config
from controller.validation import validate
from knative.errors import PenstockError
from tables.timing import SPARING_S

T = TypeVar("T")


def examine(settings: Settings, client: Mapping[str, Any] | PenstockError, context: str) -> Facts:
    """Returns the facts for all checks. `client`: librdkafka settings, or why there are none. `context`: of the
    kubeconfig; if it is not empty, a cluster is examined whatever the settings say."""
    facts: dict[str, Any] = {}
    failed: dict[str, PenstockError] = {}

    def ask(check: str, fact: str, read: Callable[[], T]) -> T | None:
        try:
            facts[fact] = answer = read()
        except PenstockError as error:
            failed[check] = error
            return None
        return answer

    if isinstance(client, PenstockError):
        failed["Kafka secret"] = client
    elif (kafka := ask("Kafka", "kafka", lambda: ask_kafka(client, settings))) is not None:
        here = ask("installation", "installation", lambda: _installation(settings, client, context, kafka))
        ask("topics", "topics", lambda: _topics(settings, client, None if here is None else here.contract))
    if context or settings.namespaces is not None:
        from app.operations.doctor.ask_cluster import ask_cluster  # takes a second

        ask("API server", "cluster", lambda: ask_cluster(settings, context))
    else:
        ask("resources", "resources", lambda: _resources(settings))
    return Facts(settings, failed=failed, **facts)


def _installation(settings: Settings, client: Mapping[str, Any], context: str, kafka: KafkaFacts) -> Installation:
    elsewhere = kafka.bootstrap != settings.kafka or context not in ("", settings.kube_context)
    start = controller_hint(settings.resources, settings.kube_context, elsewhere=elsewhere)
    return Installation(_listen(settings, client), version("penstock"), kafka.controllers, start)


def _listen(settings: Settings, client: Mapping[str, Any]) -> list[Snapshot]:
    """Reads until every worker has reported once more, as often as they may be set to. Raises PenstockError."""
    snapshots: list[Snapshot] = []
    end_s = time.monotonic() + 1.5 * REPORT_MAX_S
    while not snapshots or (not all_heard(snapshots) and time.monotonic() < end_s):
        if snapshots:
            time.sleep(SPARING_S)
        contract = read_contract(client, settings.instance)
        snapshots.append(Snapshot(time.time(), contract))
    return snapshots


def _topics(settings: Settings, client: Mapping[str, Any], contract: Contract | None) -> Topics:
    config = controller_config(settings, client)
    expected = wanted_topics(config, contract, settings.traffic, settings.traffic_retention_s)
    existing = ask_topics(client, [topic.name for topic in expected])
    return Topics(expected, existing, on_this_machine(str(client["bootstrap.servers"])))


def _resources(settings: Settings) -> Resources:
    folder = settings.resources_dir
    return Resources(folder, None if folder is None else validate(controller_config(settings, {})))
