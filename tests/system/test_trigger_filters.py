"""Filters of every dialect through real HTTP: one Broker, a Trigger for each row, each event in both content modes.

event --binary, structured--> worker `all` --> the broker's topic --> a Trigger for each row --> subscriber, by path
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.processes import Worker
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber
from tests.system.filter_rows import EVENTS, PLAIN, ROWS, Value
from tests.system.sending import HeaderLines, exchange, request

pytestmark = pytest.mark.system

LIMIT_S = 300.0
MODES = ("binary", "structured")


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _binary(attributes: dict[str, Value]) -> tuple[HeaderLines, bytes]:
    """Values percent-encoded, as the HTTP binding says."""
    return [(f"ce-{name}", quote(_text(value), safe="!#$&'()*+,/:;=?@[]")) for name, value in attributes.items()], b"x"


def _structured(attributes: dict[str, Value]) -> tuple[HeaderLines, bytes]:
    """Values with their types in JSON."""
    return [("content-type", "application/cloudevents+json")], json.dumps({**attributes, "data": "x"}).encode()


@pytest.fixture(scope="module")
def received(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[str]]]:
    """For each row the ids that came, once all Triggers have settled all events."""
    broker = Installation(kafka.bootstrap, tmp_path_factory.mktemp("filters"), channel="filters", is_broker=True)
    names = [f"row-{number:02}" for number in range(len(ROWS))]
    with ScriptedSubscriber() as subscriber:
        broker.write(
            Wanted(name, subscriber.url(f"/{name}"), "unordered", filter=row.spec)
            for name, row in zip(names, ROWS, strict=True)
        )
        with broker.worker() as worker:
            worker.wait_ready()
            broker.wait_triggers(names, LIMIT_S)
            _post_all(worker, broker)
            broker.wait_settled(names, LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        yield [sorted(delivered.attributes["id"] for delivered in subscriber.requests(f"/{name}")) for name in names]


def _post_all(worker: Worker, broker: Installation) -> None:
    for name, attributes in EVENTS.items():
        for mode, form in zip(MODES, (_binary, _structured), strict=True):
            headers, body = form({"specversion": "1.0", "id": f"{name}.{mode}", **PLAIN, **attributes})
            answered = exchange(worker.port, request(broker.resources.path, headers, body))
            assert answered.status == 202, (name, mode, answered)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda number: f"{number:02}-{json.dumps(ROWS[number].spec)}")
def test_trigger_gets_exactly_what_its_filter_lets_pass(received: list[list[str]], number: int) -> None:
    assert received[number] == sorted(f"{name}.{mode}" for name in ROWS[number].names for mode in MODES)


def test_table_has_rows_of_every_kind() -> None:
    dialects = {dialect for row in ROWS for filter_ in row.spec.get("filters", ()) for dialect in filter_}
    assert dialects == {"exact", "prefix", "suffix", "all", "any", "not", "cesql"}
    assert len(ROWS) >= 60
    assert all(row.names <= EVENTS.keys() for row in ROWS)
    assert {name for row in ROWS if 0 < len(row.names) < 6 for name in row.names} == EVENTS.keys() - {"plain"}
