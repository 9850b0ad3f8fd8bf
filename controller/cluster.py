"""Puts the parts together that read resources from a cluster and write statuses to it. Importing this takes a second
and 50 MB."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from controller.config import ControllerConfig
from controller.election import Election
from controller.kube.api_server import ApiServer
from controller.kube.election import LeaseElection
from controller.kube.errors import ASK_DOCTOR
from controller.model import Trouble
from controller.place import Changed, MakeLock, Place
from controller.source.cluster.event_types import Traffic
from controller.source.cluster.objects import path_of
from controller.source.cluster.source import ClusterSource
from controller.status.cluster.writer import ClusterStatus, LiveObject
from knative.contract import kafka_names
from knative.resources.kinds import API_VERSIONS


def cluster(config: ControllerConfig, crashed: Callable[[BaseException], None], worker_id: str) -> Place:
    """Returns the place of the config's cluster. `worker_id`: a name of this process for people, which need not be
    unique."""
    api = ApiServer(config.kubeconfig, config.context)
    me = f"{worker_id}_{secrets.token_hex(4)}"
    elections: list[LeaseElection] = []  # empty until the controller calls `elect`, once

    def has_lease() -> bool:
        return any(election.has_lease for election in elections)

    def problem() -> str | None:
        return next((f"{election.problem}; {ASK_DOCTOR}" for election in elections if election.problem), None)

    traffic = Traffic(config.kafka, kafka_names.traffic_topic(config.instance)) if config.traffic else None
    source = ClusterSource(
        api, config.namespaces, config.subscriptions, crashed, has_lease, config.channel_services, traffic
    )

    def elect(make_lock: MakeLock, changed: Changed) -> Election:
        name = f"{config.instance}-controller"
        election = LeaseElection(api, name, me, make_lock, changed, crashed, config.stop_timeout_s)
        elections.append(election)
        return election

    def live(kind: str, namespace: str, name: str) -> LiveObject | None:
        match = source.live(kind, namespace, name)
        if match is None:
            return None
        store, raw = match
        return LiveObject(raw, path_of(kind, namespace, name), API_VERSIONS[kind], store.put)

    sink = ClusterStatus(api, live, has_lease, me)

    def troubles() -> list[Trouble]:
        return [
            *(trouble for election in elections for trouble in election.troubles()),
            *source.troubles(),
            *sink.troubles(),
        ]

    # `has_lease` is enough to write to the API server. Everything else also needs the lock in Kafka.
    return Place(source, sink, elect, api.open, api.close, has_lease, problem, troubles)
