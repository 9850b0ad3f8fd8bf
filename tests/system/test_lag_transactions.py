"""A channel's log that ends in markers of transactions: everything that shows lag comes to rest at 0."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.processes import wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.test_cli_beside_worker import penstock
from tests.system.test_worker_metrics import metrics, value, wide

pytestmark = pytest.mark.system

LIMIT_S = 180.0
EVENTS = 10  #: in each transaction
PARTITIONS = 2


def _transact(installation: Installation, *, abort: bool) -> None:
    """Events of a foreign producer, to every partition. Returns when consumers can read past the transaction."""
    ends = {partition: end + EVENTS // PARTITIONS + 1 for partition, end in installation.ends().items()}
    name = f"tx-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": installation.bootstrap, "transactional.id": name})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for number in range(EVENTS):
        headers = {"ce_specversion": "1.0", "ce_id": f"{name}-{number}", "ce_source": "/tx", "ce_type": "t"}
        producer.produce(
            installation.resources.topic, b"x", partition=number % PARTITIONS, headers=list(headers.items())
        )
    assert producer.flush(LIMIT_S) == 0
    if abort:
        producer.abort_transaction(LIMIT_S)
    else:
        producer.commit_transaction(LIMIT_S)
    # The answer comes before the marker is in every partition; until then its end is the start of the transaction.
    wait_until("the transaction has ended in every partition", lambda: installation.ends() == ends, LIMIT_S)


def test_lag_is_zero_behind_a_transaction(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(
        kafka.bootstrap, tmp_path, partitions=PARTITIONS, env={"PENSTOCK_STATUS_INTERVAL_S": "0.2"}
    )
    orders = ("ordered", "key-ordered", "unordered")
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted(order, subscriber.script(f"/{order}", says(200)), order) for order in orders])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(orders))
            for abort in (False, True):
                _transact(installation, abort=abort)
                # What is committed reaches the end of the log: a tool that compares the two, as KEDA's Kafka scaler,
                # sees no lag.
                installation.wait_settled(orders, LIMIT_S)
                wait_until(
                    "the status shows no lag",
                    lambda: all(row["lagEvents"] == 0 for row in wide(worker, installation).values()),
                    LIMIT_S,
                )
                page = metrics(worker)
                assert {
                    value(page, "penstock_lag_events", subscription=f"{NAMESPACE}/{order}") for order in orders
                } == {0}
                assert {(row["events"], row["seconds"]) for row in penstock(installation, "lag")[0]} == {(0, 0.0)}
            assert worker.terminate() == 0, worker.tail()
        for order in orders:
            assert len(subscriber.requests(f"/{order}")) == EVENTS, "aborted records are not delivered"
