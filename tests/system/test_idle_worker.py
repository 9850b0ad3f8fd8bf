"""A worker with nothing to do: it keeps the Kafka clients, connections and threads that it has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.proc import open_files, thread_names
from tests.support.processes import LoadProcess, SinkProcess, Worker
from tests.support.resources import Wanted

pytestmark = pytest.mark.system

LIMIT_S = 180.0
LOOK_S = 13.0  #: two rounds of everything that is done every five seconds, and more
LOOKS = 4


def _held(worker: Worker) -> tuple[frozenset[int], frozenset[str]]:
    """The threads of librdkafka and the connections to Kafka: each client that is made brings new ones along."""
    threads = {number for number, name in thread_names(worker.process.pid).items() if name.startswith("rdk:")}
    sockets = {file for file in open_files(worker.process.pid).values() if file.startswith("socket:")}
    return frozenset(threads), frozenset(sockets)


def test_no_client_is_made_at_rest(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path, partitions=2)
    with SinkProcess(tmp_path, {"a": "", "b": ""}) as sink:
        installation.write([Wanted(name, sink.url(name)) for name in ("a", "b")])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 2)
            with LoadProcess(tmp_path, installation.url(worker), events=20, rate=100) as load:
                assert load.result(LIMIT_S)["statuses"] == {"202": 20}
            installation.wait_settled(["a", "b"], LIMIT_S)
            looks = [_held(worker)]
            # Whatever still settles after the start changes the first looks; a client made at rest changes them all.
            while len(looks) <= LOOKS and (len(looks) < 2 or looks[-1] != looks[-2]):
                time.sleep(LOOK_S)
                looks.append(_held(worker))
            assert looks[-1] == looks[-2], [tuple(map(len, look)) for look in looks]
            assert looks[-1][0], "a worker has Kafka clients"
            assert worker.terminate() == 0, worker.tail()
