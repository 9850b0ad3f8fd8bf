"""A worker is killed, and an older commit of its offsets arrives after that: the next one begins where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import reported_offsets
from tests.support.installation import Installation
from tests.support.processes import LoadProcess, SinkProcess, wait_until
from tests.support.resources import Wanted

pytestmark = pytest.mark.system

LIMIT_S = 180.0
PARTITIONS, EVENTS = 3, 200
NAME = "a"


@pytest.mark.parametrize("kind", ["Trigger", "Subscription"])
def test_events_of_a_killed_worker_do_not_come_again(kafka: EmbeddedKafka, tmp_path: Path, kind: str) -> None:
    client = {"bootstrap.servers": kafka.bootstrap}
    installation = Installation(kafka.bootstrap, tmp_path, PARTITIONS, is_broker=kind == "Trigger")
    with SinkProcess(tmp_path, {NAME: ""}) as sink:
        installation.write([Wanted(NAME, sink.url(NAME))])

        def send(run: str) -> None:
            with LoadProcess(tmp_path, installation.url(worker), events=EVENTS, keys=20, run=run) as load:
                assert load.result(LIMIT_S)["accepted"] == EVENTS
            installation.wait_settled([NAME], LIMIT_S)

        with installation.worker() as worker:
            worker.wait_ready()
            wait_until("it is ready", lambda: _is_ready(installation), LIMIT_S)
            send("before")
            ends, group = installation.ends(), installation.group(NAME)

            def reported() -> bool:
                contract = read_contract(client, installation.name)
                (subscription,) = contract.subscriptions
                return reported_offsets(subscription, contract.workers) == ends

            wait_until("the worker has reported its offsets", reported, LIMIT_S)
            worker.kill()
        topic = installation.resources.topic
        KafkaAdmin(client).groups.commit(group, {(topic, number): 5 for number in ends})
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_settled([NAME], LIMIT_S)
            send("after")
            assert worker.terminate() == 0, worker.tail()
        stats = sink.stats()[NAME]
        assert (stats["distinct"], stats["duplicates"]) == (2 * EVENTS, 0)


def _is_ready(installation: Installation) -> bool:
    conditions = installation.status(installation.resources.kind, NAME).get("status", {}).get("conditions", ())
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)
