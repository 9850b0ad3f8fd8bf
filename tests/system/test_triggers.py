"""Triggers in one running installation: changed and replaced under load, replies that go on, replies in a loop, starts.

One worker for all; each test has a broker of its own, and so topics of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from knative.cloudevents.http_binding import REPLY_DEPTH
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.ledger.facts import Received, Sent, read
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.scripted_server import Step, silence
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

DEPTH_MAX = 5
LIMIT_S = 180.0


@dataclass(slots=True)
class Running:
    """The worker, and the subscribers of all tests."""

    installation: Installation
    worker: Worker
    subscriber: ScriptedSubscriber

    def broker(self, name: str, *triggers: Wanted) -> Installation:
        """Another broker with its Triggers, all ready."""
        broker = self.installation.beside(name, partitions=2)
        broker.write(triggers)
        broker.wait_triggers([trigger.name for trigger in triggers], LIMIT_S)
        return broker

    def post(self, broker: Installation, event_id: str, type_: str) -> None:
        """One event that the broker accepts."""
        answered = post(self.worker.port, broker.resources.path, event_id, b"x", [("ce-type", type_)])
        assert answered.status == 202, answered

    def ids(self, path: str) -> list[str]:
        """What came to a path so far, by id."""
        return [request.attributes["id"] for request in self.subscriber.requests(path)]


@pytest.fixture(scope="module")
def running(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An installation with a short limit for chains of replies."""
    env = {"PENSTOCK_REPLY_DEPTH_MAX": str(DEPTH_MAX)}
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("triggers"), env=env, is_broker=True)
    installation.resources.folder.mkdir(parents=True)
    with ScriptedSubscriber() as subscriber, installation.worker() as worker:
        worker.wait_ready()
        yield Running(installation, worker, subscriber)
        assert worker.terminate() == 0, worker.tail()


def _types(*types: str) -> dict[str, Any]:
    return {"filters": [{"any": [{"exact": {"type": type_}} for type_ in types]}]}


def _replies(type_: str) -> Step:
    return says(200, b"reply", "ce-specversion: 1.0", f"ce-id: reply-{type_}", "ce-source: /a%20b", f"ce-type: {type_}")


def test_filter_that_changes_under_load_loses_and_repeats_nothing(running: Running, tmp_path: Path) -> None:
    """From types a and b to b and c; b passes both. The subscriber fails now and then, so some wait for a retry."""
    name, delivery = f"{NAMESPACE}/changing", {"retry": 20, "backoffPolicy": "linear", "backoffDelay": "PT0.1S"}
    with SinkProcess(tmp_path, {name: "fail_chance=0.1,delay_s=0.01"}, tmp_path / "received") as sink:
        before = Wanted("changing", sink.url(name), "key-ordered", delivery, filter=_types("a", "b"))
        broker = running.broker("changed", before)
        options = {"events": 0, "keys": 50, "rate": 200, "types": "a,b,c,d", "ledger": tmp_path / "sent"}
        with LoadProcess(tmp_path, broker.url(running.worker), **options) as load:
            wait_until("events arrive", lambda: sink.stats()[name]["delivered"] > 200, LIMIT_S)
            broker.resources.write(Wanted("changing", sink.url(name), "key-ordered", delivery, filter=_types("b", "c")))
            wait_until("the new filter is observed", lambda: broker.observed("changing") == 2, LIMIT_S)
            broker.wait_triggers(["changing"], LIMIT_S)
            changed_s = time.time()
            seen = sink.stats()[name]["delivered"]
            wait_until("more events arrive", lambda: sink.stats()[name]["delivered"] > seen + 200, LIMIT_S)
            load.process.terminate()
            load.result(LIMIT_S)
        broker.wait_settled(["changing"], LIMIT_S)
        broker.resources.remove("changing")
        assert sink.terminate() == 0
    facts = list(read(tmp_path / "sent", tmp_path / "received"))
    sent = {fact.id: fact for fact in facts if isinstance(fact, Sent) and fact.status == 202}
    visits = [fact for fact in facts if isinstance(fact, Received)]
    delivered = [visit.id for visit in visits if visit.status == 200]
    assert len(delivered) == len(set(delivered))
    owed = {
        event.id for event in sent.values() if event.type == "b" or (event.type == "c" and event.time_s > changed_s)
    }
    assert owed <= set(delivered)
    assert {sent[visit.id].type for visit in visits} == {"a", "b", "c"}
    assert {sent[visit.id].type for visit in visits if sent[visit.id].time_s > changed_s} == {"b", "c"}


def test_filter_that_takes_long_is_changed_while_events_wait(running: Running) -> None:
    """To judge all of them again would hold up the loop, so the Trigger starts again, and reads them again."""
    path, count = "/slow", 40
    uri = running.subscriber.script(path, says(503))
    delivery = {"retry": 1_000, "backoffPolicy": "linear", "backoffDelay": "PT0.2S"}
    broker = running.broker("slow", Wanted("slow", uri, delivery=delivery, filter=_types("a", "b")))
    for number in range(count):
        running.post(broker, f"{number}", "ab"[number % 2])
    wait_until("the first is tried", lambda: len(running.ids(path)) > 1, LIMIT_S)
    expression = " OR ".join(["type = 'b'", *["EXISTS a AND a LIKE '%x%'"] * 100])
    new = Wanted("slow", uri, delivery=delivery, filter={"filters": [{"cesql": expression}]})
    broker.resources.write(new)
    wait_until("the new filter is observed", lambda: broker.observed("slow") == 2, LIMIT_S)
    broker.wait_triggers(["slow"], LIMIT_S)
    running.subscriber.script(path, says(200))
    broker.wait_settled(["slow"], LIMIT_S)
    ids = running.ids(path)
    # Two partitions: of each, the first event of both filters may have been tried several times.
    often = {event_id for event_id in ids if ids.count(event_id) > 1}
    assert len(often) <= 4
    evens = {str(number) for number in range(0, count, 2)}
    assert set(ids) - evens == {str(number) for number in range(1, count, 2)}
    assert len(set(ids) & evens) <= 2
    lines = (running.worker.output() + running.worker.log.read_text()).splitlines()
    assert sum("subscription started" in line and "/trigger:slow" in line for line in lines) == 2


def test_trigger_of_the_same_name_inherits_nothing(running: Running) -> None:
    """Deleted with a backlog that cannot be delivered, and created again: another group, at the end of the log."""
    never = running.subscriber.script("/again/old", says(503))
    delivery = {"retry": 100, "backoffPolicy": "linear", "backoffDelay": "PT0.2S"}
    broker = running.broker("again", Wanted("again", never, delivery=delivery))
    old_uid, old_group = broker.uid("again"), broker.group("again")
    for number in range(20):
        running.post(broker, f"old-{number}", "a")
    wait_until("the first is tried", lambda: len(running.ids("/again/old")) > 2, LIMIT_S)
    broker.delete("again")
    wait_until("its status is gone", lambda: not broker.status("Trigger", "again"), LIMIT_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def gone() -> bool:
        groups = admin.list_consumer_groups(request_timeout=120).result()
        return old_group not in {group.group_id for group in groups.valid}

    wait_until("its group is gone", gone, LIMIT_S)
    tried = len(running.ids("/again/old"))
    new = running.subscriber.script("/again/new", says(200))
    broker.resources.write(Wanted("again", new, delivery=delivery))
    wait_until("it has a status again", lambda: bool(broker.status("Trigger", "again")), LIMIT_S)
    assert broker.uid("again") != old_uid
    broker.wait_triggers(["again"], LIMIT_S)
    for number in range(20):
        running.post(broker, f"new-{number}", "a")
    broker.wait_settled(["again"], LIMIT_S)
    assert sorted(running.ids("/again/new")) == sorted(f"new-{number}" for number in range(20))
    assert len(running.ids("/again/old")) == tried


def test_events_that_hang_at_a_former_subscriber_come_to_the_new_one(running: Running) -> None:
    """Their time limit is 300 s, which is longer than this test waits."""
    old, new = running.subscriber.script("/moved/old", silence()), running.subscriber.script("/moved/new", says(200))
    broker = running.broker("moved", Wanted("moves", old, order="unordered", delivery={"retry": 0}))
    ids = {f"hangs-{number}" for number in range(5)}
    for event_id in ids:
        running.post(broker, event_id, "any")
    wait_until("all hang", lambda: set(running.ids("/moved/old")) == ids, LIMIT_S)
    broker.write([Wanted("moves", new, order="unordered", delivery={"retry": 0})])
    wait_until("all came to the new subscriber", lambda: set(running.ids("/moved/new")) == ids, LIMIT_S)
    broker.wait_settled(["moves"], LIMIT_S)
    assert [*reader.records(broker.bootstrap, broker.resources.dlq_topic)] == []


def test_replies_go_from_trigger_to_trigger(running: Running) -> None:
    script = running.subscriber.script
    broker = running.broker(
        "chain",
        Wanted("one", script("/chain/one", _replies("two")), filter=_types("one")),
        Wanted("two", script("/chain/two", _replies("three")), filter=_types("two")),
        Wanted("three", script("/chain/three", says(200)), filter=_types("three")),
    )
    running.post(broker, "first", "one")
    wait_until("the chain is at its end", lambda: running.ids("/chain/three") != [], LIMIT_S)
    broker.wait_settled(["one", "two", "three"], LIMIT_S)
    chain = [running.ids(f"/chain/{name}") for name in ("one", "two", "three")]
    assert chain == [["first"], ["reply-two"], ["reply-three"]]
    (last,) = running.subscriber.requests("/chain/three")
    assert (last.attributes["type"], last.body, last.header(REPLY_DEPTH)) == ("three", b"reply", None)
    assert last.attributes["source"] == "/a%20b"
    records = reader.records(broker.bootstrap, broker.resources.topic)
    assert sorted((reader.header(record, "ce_id"), reader.header(record, REPLY_DEPTH)) for record in records) == [
        ("first", ""),
        ("reply-three", "2"),
        ("reply-two", "1"),
    ]


def test_trigger_inherits_from_its_broker_what_it_has_not(running: Running) -> None:
    """The broker makes four attempts and has a sink. `few` makes fewer, `patient` waits longer, `own` has a sink."""
    script = running.subscriber.script
    of_broker, of_trigger = script("/merge/broker-sink", says(200)), script("/merge/own-sink", says(200))
    broker = running.installation.beside("merge", partitions=2)
    deliveries: dict[str, dict[str, Any]] = {
        "few": {"retry": 2},
        "patient": {"timeout": "PT30S"},
        "own": {"deadLetterSink": {"uri": of_trigger}},
    }
    broker.write(
        [Wanted(name, script(f"/merge/{name}", says(500)), delivery=spec) for name, spec in deliveries.items()],
        {"retry": 3, "backoffDelay": "PT0.05S", "deadLetterSink": {"uri": of_broker}},
    )
    broker.wait_triggers(list(deliveries), LIMIT_S)
    running.post(broker, "failing", "any")
    wait_until("both sinks have all", lambda: len(running.ids("/merge/broker-sink")) == 2, LIMIT_S)
    broker.wait_settled(list(deliveries), LIMIT_S)
    assert {name: len(running.ids(f"/merge/{name}")) for name in deliveries} == {"few": 3, "patient": 4, "own": 4}
    assert (running.ids("/merge/broker-sink"), running.ids("/merge/own-sink")) == (["failing"] * 2, ["failing"])
    status = json.loads(broker.penstock("status", "-n", NAMESPACE, "-o", "json").stdout)
    rows = {row["trigger"]: row for row in status["triggers"]}
    few, own = rows[f"{NAMESPACE}/few"], rows[f"{NAMESPACE}/own"]
    assert few["delivery"].startswith("own: retry=2; broker: backoffDelay=0.05s; default: ")
    assert (few["dead_letters"], own["dead_letters"]) == (f"{of_broker} (broker)", f"{of_trigger} (own)")
    assert broker.status("Trigger", "few")["status"]["deadLetterSinkUri"] == of_broker


def test_deliveries_in_a_loop_end_as_a_dead_letter(running: Running) -> None:
    """A Trigger whose subscriber is its own broker: each event comes back, until the chain is as long as is allowed."""
    broker = running.installation.beside("itself", partitions=1)
    url = f"http://127.0.0.1:{running.worker.port}{broker.resources.path}"
    broker.write([Wanted("returns", url, delivery={"retry": 3, "deadLetterSink": {"uri": url}})])
    broker.wait_triggers(["returns"], LIMIT_S)
    running.post(broker, "comes-back", "any")
    wait_until(
        "the last one is a dead letter",
        lambda: len([*reader.records(broker.bootstrap, broker.resources.dlq_topic)]) == 1,
        LIMIT_S,
    )
    broker.wait_settled(["returns"], LIMIT_S)
    records = reader.records(broker.bootstrap, broker.resources.topic)
    depths = ["", *map(str, range(1, DEPTH_MAX + 1))]
    assert [(reader.header(each, "ce_id"), reader.header(each, REPLY_DEPTH)) for each in records] == [
        ("comes-back", depth) for depth in depths
    ]
    (letter,) = reader.records(broker.bootstrap, broker.resources.dlq_topic)
    assert reader.header(letter, "ce_knativeerrorcode") == "508"
    assert (reader.header(letter, "ce_knativeerrordest"), letter.value()) == (url, b"x")
    done = broker.penstock("topology", "--namespace", NAMESPACE, "-o", "json")
    assert f"self-reply:broker:{NAMESPACE}/{broker.resources.channel}" in done.stdout, done.stderr


def test_replies_in_a_loop_end_as_a_dead_letter(running: Running) -> None:
    """Two Triggers that answer each other: the event that was led to by the most replies gets no further."""
    ping, pong = (running.subscriber.script(f"/loop/{other}", _replies(other)) for other in ("pong", "ping"))
    broker = running.broker(
        "loop", Wanted("ping", ping, filter=_types("ping")), Wanted("pong", pong, filter=_types("pong"))
    )
    running.post(broker, "first", "ping")

    def letters() -> list[Any]:
        return list(reader.records(broker.bootstrap, broker.resources.dlq_topic))

    wait_until("there is a dead letter", lambda: letters() != [], LIMIT_S)
    broker.wait_settled(["ping", "pong"], LIMIT_S)
    (letter,) = letters()
    assert reader.header(letter, "ce_knativeerrorcode") == "508"
    assert "loop" in reader.header(letter, "penstock-reason")
    assert reader.header(letter, "penstock-attempts") == "1"
    assert len(running.ids("/loop/pong")) + len(running.ids("/loop/ping")) == DEPTH_MAX + 1
    assert sum(broker.ends().values()) == DEPTH_MAX + 1


def test_trigger_starts_at_a_time(running: Running) -> None:
    broker = running.broker("since", Wanted("witness", running.subscriber.url("/since/witness")))
    for number in range(10):
        running.post(broker, f"old-{number}", "a")
    time.sleep(0.05)  # times of records are in milliseconds
    start = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    time.sleep(0.05)
    for number in range(10):
        running.post(broker, f"new-{number}", "a")
    annotations = {"penstock.dev/start": start}
    broker.resources.write(Wanted("late", running.subscriber.url("/since/late"), annotations=annotations))
    broker.wait_triggers(["late"], LIMIT_S)
    running.post(broker, "newest", "a")
    broker.wait_settled(["late", "witness"], LIMIT_S)
    assert sorted(running.ids("/since/late")) == sorted([*(f"new-{number}" for number in range(10)), "newest"])
    assert len(running.ids("/since/witness")) == 21
