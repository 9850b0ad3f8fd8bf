"""A channel with several Subscriptions in one running installation: one reader, each event once, late starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import LoadProcess, Worker
from tests.support.resources import NAMESPACE, ORDERS, Wanted
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

LIMIT_S = 180.0
PARTITIONS = 3
EVENTS = 200


@dataclass(slots=True)
class Running:
    """The worker and its three Subscriptions, one of each order."""

    installation: Installation
    worker: Worker
    subscriber: ScriptedSubscriber

    def send(self, run: str, events: int) -> None:
        """Events that the channel accepts; the ids of each `run` are its own."""
        url = self.installation.url(self.worker)
        with LoadProcess(self.installation.folder, url, events=events, keys=20, run=run) as load:
            load.result(LIMIT_S)

    def ids(self, name: str, run: str = "") -> list[str]:
        """What came to a Subscription, in order."""
        ids = [request.attributes["id"] for request in self.subscriber.requests(f"/{name}")]
        return [id_ for id_ in ids if id_.startswith(run)]

    def stored(self, run: str = "") -> dict[int, list[str]]:
        """Partition -> the ids in the topic."""
        ids: dict[int, list[str]] = defaultdict(list)
        for message in reader.records(self.installation.bootstrap, self.installation.resources.topic):
            if (id_ := reader.header(message, "ce_id")).startswith(run):
                ids[message.partition() or 0].append(id_)
        return ids


@pytest.fixture(scope="module")
def running(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Everything is ready."""
    folder = tmp_path_factory.mktemp("reader")
    installation = Installation(
        kafka.bootstrap, folder, PARTITIONS, env={"PENSTOCK_INGRESS_URL": "http://ingress.test"}
    )
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted(order, subscriber.script(f"/{order}", says(200)), order) for order in ORDERS])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(ORDERS), LIMIT_S)
            yield Running(installation, worker, subscriber)
            assert worker.terminate() == 0, worker.tail()


def test_each_gets_each_event_once_and_one_reader_reads(running: Running) -> None:
    running.send("once", EVENTS)
    installation = running.installation
    installation.wait_settled(ORDERS, LIMIT_S)
    stored = running.stored("once")
    partition_of = {id_: number for number, ids in stored.items() for id_ in ids}
    assert len(partition_of) == EVENTS
    for order in ORDERS:
        assert sorted(running.ids(order, "once")) == sorted(partition_of), order
    delivered: dict[int, list[str]] = defaultdict(list)
    for id_ in running.ids("ordered", "once"):
        delivered[partition_of[id_]].append(id_)
    assert delivered == stored
    admin = KafkaAdmin({"bootstrap.servers": installation.bootstrap}, 60.0)
    (reading,) = admin.groups.describe_all([fanout_group(installation.name, installation.resources.topic)]).values()
    assert reading.members == 1
    assert all(not group.members for group in admin.groups.describe_all(list(map(installation.group, ORDERS))).values())
    admin.close()


def test_one_that_comes_later_starts_at_the_beginning_or_at_the_end(running: Running) -> None:
    running.send("before", EVENTS)
    installation = running.installation
    installation.wait_settled(ORDERS, LIMIT_S)
    starts = {"whole": {"penstock.dev/start": "earliest"}, "fresh": {}}
    for name, start in starts.items():
        uri = running.subscriber.script(f"/{name}", says(200))
        installation.resources.write(Wanted(name, uri, annotations=start))
    installation.wait_subscribers(running.worker, len(ORDERS) + 2, LIMIT_S)
    running.send("after", 10)
    installation.wait_settled([*ORDERS, *starts], LIMIT_S)
    stored = [id_ for ids in running.stored().values() for id_ in ids]
    assert sorted(running.ids("whole")) == sorted(stored)
    assert sorted(running.ids("fresh")) == sorted(id_ for id_ in stored if id_.startswith("after"))
    installation.delete(*starts)
    installation.wait_subscribers(running.worker, len(ORDERS), LIMIT_S)


def test_lag_and_status_show_them_as_any_other(running: Running) -> None:
    installation = running.installation
    running.send("shown", 10)
    installation.wait_settled(ORDERS, LIMIT_S)
    for command in ("lag", "status"):
        done = installation.penstock(command, "-n", NAMESPACE)
        assert done.returncode == 0, done.stderr
        assert all(order in done.stdout for order in ORDERS), done.stdout
