"""What is away comes back, and nothing was lost: the DLQ topic, Kafka itself, a good resource file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.ledger.checker import check
from tests.support.ledger.facts import Fault, Writer, read
from tests.support.ledger.worker_log import pauses
from tests.support.processes import REPOSITORY, LoadProcess, SinkProcess, Worker, free_port, get, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
OUTAGE_S = 30.0
_REFUSING = ("max.message.bytes", "100")  #: no dead letter fits
_TAKING = ("max.message.bytes", "2000000")


def _target(installation: Installation) -> str:
    return f"/channels/{NAMESPACE}/{installation.resources.channel}"


def _came(subscriber: ScriptedSubscriber, path: str, event_id: str) -> bool:
    return any(request.attributes["id"] == event_id for request in subscriber.requests(path))


def _set_config(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(180)


def _break_dlq(admin: AdminClient, topic: str, how: str) -> None:
    if how == "deleted":
        for done in admin.delete_topics([topic], operation_timeout=120).values():
            done.result(180)
    else:
        _set_config(admin, topic, *_REFUSING)


def _mend_dlq(admin: AdminClient, topic: str, how: str) -> None:
    if how == "deleted":
        for done in admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=120).values():
            done.result(180)
    else:
        _set_config(admin, topic, *_TAKING)


@pytest.mark.parametrize("how", ["too small", "deleted"])
def test_dlq_topic_that_cannot_be_written_holds_the_event(how: str, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Nothing is passed over while it is so, across a kill of the worker too; when it can be written, it flows."""
    installation = Installation(kafka.bootstrap, tmp_path, env={"PENSTOCK_PRODUCE_TIMEOUT_S": "2"})
    admin, dlq_topic = AdminClient({"bootstrap.servers": kafka.bootstrap}), installation.resources.dlq_topic
    events = [f"e{number}" for number in range(5)]
    with ScriptedSubscriber() as subscriber:
        dying = subscriber.script("/dying", says(400, b"no"))
        installation.write([Wanted("dying", dying, delivery={"retry": 0})])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            assert worker.terminate() == 0, worker.tail()
        # From here on without a controller: it would mend the topic faster than the test can look.
        with installation.worker(controller=False) as worker:
            worker.wait_ready()
            _break_dlq(admin, dlq_topic, how)
            for event in events:
                assert post(worker.port, _target(installation), event, event.encode()).status == 202
            wait_until("the first event was refused", lambda: bool(subscriber.requests("/dying")), LIMIT_S)
            time.sleep(5)  # some tries of the dead letter
            assert installation.position("dying") == {0: 0}
            assert {request.attributes["id"] for request in subscriber.requests("/dying")} == {"e0"}
            worker.kill()
        with installation.worker(controller=False) as worker:
            worker.wait_ready()
            _mend_dlq(admin, dlq_topic, how)
            installation.wait_settled(["dying"], 180)
            assert worker.terminate() == 0, worker.tail()
    letters = [reader.header(message, "ce_id") for message in reader.records(kafka.bootstrap, dlq_topic)]
    assert list(dict.fromkeys(letters)) == events
    assert len(letters) <= len(events) + 1  # the kill may repeat the one that was under way


def test_kafka_away_for_thirty_seconds(tmp_path: Path) -> None:
    """503s and no false 202; everything that was answered 202 arrives; the same worker goes on by itself."""
    jars = REPOSITORY / ".penstock" / "kafka"
    with EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap="384m", jars_root=jars) as broker:
        env = {"PENSTOCK_PRODUCE_TIMEOUT_S": "3"}
        installation = Installation(broker.bootstrap, tmp_path, partitions=3, env=env)
        with SinkProcess(tmp_path, {}, tmp_path / "received") as sink:
            specs = [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order) for order in ("ordered", "key-ordered")]
            installation.write(specs)
            with installation.worker() as worker:
                worker.wait_ready()
                installation.wait_subscribers(worker, 2)
                options: dict[str, Any] = {"events": 0, "rate": 200, "keys": 100, "connections": 32}
                url, ledger = installation.url(worker), tmp_path / "sent"
                with LoadProcess(tmp_path, url, sequential=True, ledger=ledger, **options) as load:
                    fault = _outage(broker, worker, sink, _target(installation))
                    load.process.terminate()
                    result = load.result(180)
                assert set(result["statuses"]) <= {"202", "429", "503"}, result
                assert result["statuses"].get("503", 0) > 0, result
                installation.wait_settled([subscription.name for subscription in specs], LIMIT_S)
                assert worker.terminate() == 0, worker.tail()
            assert sink.terminate() == 0
        groups = [installation.group(subscription.name) for subscription in specs]
        with Writer(tmp_path / "outside") as writer:
            writer.write(fault)
            writer.write_all(pauses(worker.log))
            writer.write_all(reader.stored(broker.bootstrap, installation.resources.topic))
            writer.write_all(reader.committed(broker.bootstrap, groups))
        facts = read(tmp_path / "sent", tmp_path / "received", tmp_path / "outside")
        verdict = check(facts, [installation.rule(subscription) for subscription in specs])
    print(verdict)
    assert verdict.violations == (), str(verdict)
    assert verdict.report.rejected > 0
    assert verdict.report.events > 0


def _outage(broker: EmbeddedKafka, worker: Worker, sink: SinkProcess, target: str) -> Fault:
    """Events flow, Kafka is killed for 30 s, events flow again."""

    def received() -> int:
        return sum(counts["distinct"] for counts in sink.stats().values())

    wait_until("events flow", lambda: received() > 500, LIMIT_S)
    from_s = time.time()
    broker.kill()
    time.sleep(OUTAGE_S)
    assert worker.running, worker.tail()
    answer = post(worker.port, target, "not-now")
    assert (answer.status, answer.headers.get("retry-after")) == (503, "1"), answer
    ready, body = get(worker.port, "/readyz")
    assert ready == 200, "an outage of Kafka must not take the worker out"
    assert json.loads(body)["kafka"] in (False, "down", "unreachable", "disconnected"), body
    broker.start()
    before = received()
    wait_until("events flow again", lambda: received() > before + 500, 180)
    return Fault("kafka", from_s, time.time())


@pytest.fixture
def running(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[tuple[Installation, Worker, ScriptedSubscriber]]:
    """A worker with one ordered Subscription, `one`, delivered to /one."""
    installation = Installation(kafka.bootstrap, tmp_path)
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("one", subscriber.script("/one", says(200)))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            yield installation, worker, subscriber
            assert worker.terminate() == 0, worker.tail()


Running = tuple[Installation, Worker, ScriptedSubscriber]


def test_bad_file_keeps_the_last_good_state(running: Running) -> None:
    """It is reported with file, line and hint; the subscription continues, and uses the fixed file."""
    installation, worker, subscriber = running
    path = installation.resources.folder / f"{installation.resources.channel}-one.yaml"
    good = path.read_text()
    problems = installation.state / "problems.json"
    for number, bad in enumerate(["kind: [", good.replace("uri: http", "uri: ftp"), good + "\n  surplus: 1\n"]):
        path.write_text(bad)

        def reported() -> bool:
            entries = json.loads(problems.read_text())["problems"] if problems.exists() else []
            return any(
                problem["file"] == path.name and problem["line"] > 0 and problem["what"] and problem["hint"]
                for problem in entries
            )

        wait_until(f"the problem of {bad[-40:]!r} is reported", reported, LIMIT_S)
        assert post(worker.port, _target(installation), f"e{number}").status == 202
        wait_until("it is delivered all the same", lambda n=number: _came(subscriber, "/one", f"e{n}"), LIMIT_S)  # type: ignore[misc]
        path.write_text(good)
        wait_until("no problem is left", lambda: not json.loads(problems.read_text())["problems"], LIMIT_S)
    assert [row["ready"] for row in worker.subscribers(installation.resources.channel)] == ["True"]


def test_edited_subscriber_counts_from_the_next_event_on(running: Running) -> None:
    installation, worker, subscriber = running
    assert post(worker.port, _target(installation), "before").status == 202
    wait_until("it is delivered", lambda: _came(subscriber, "/one", "before"), LIMIT_S)
    installation.resources.write(Wanted("one", subscriber.script("/moved", says(200))))

    def taken_up() -> bool:
        rows = worker.subscribers(installation.resources.channel)
        return [(row["observedGeneration"], row["ready"]) for row in rows] == [(2, "True")]

    wait_until("generation 2 is ready", taken_up, LIMIT_S)
    assert post(worker.port, _target(installation), "after").status == 202
    wait_until("it goes to the new address", lambda: _came(subscriber, "/moved", "after"), LIMIT_S)
    installation.wait_settled(["one"], LIMIT_S)
    assert [request.attributes["id"] for request in subscriber.requests("/one")] == ["before"]
    assert [request.attributes["id"] for request in subscriber.requests("/moved")] == ["after"]


def test_edit_frees_an_event_that_is_being_retried(running: Running) -> None:
    """A changed address applies to the next attempt, without losing the place."""
    installation, worker, subscriber = running
    stuck = subscriber.script("/stuck", says(503))
    delivery = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT0.2S", "retryAfterMax": "PT0S"}
    installation.resources.write(Wanted("one", stuck, delivery=delivery))
    wait_until(
        "generation 2 is ready",
        lambda: [row["observedGeneration"] for row in worker.subscribers(installation.resources.channel)] == [2],
        LIMIT_S,
    )
    for number in range(3):
        assert post(worker.port, _target(installation), f"e{number}").status == 202
    wait_until("it is being retried", lambda: len(subscriber.requests("/stuck")) > 1, LIMIT_S)
    installation.resources.write(Wanted("one", subscriber.script("/free", says(200)), delivery=delivery))
    installation.wait_settled(["one"], LIMIT_S)
    assert [request.attributes["id"] for request in subscriber.requests("/free")] == ["e0", "e1", "e2"]
    assert {request.attributes["id"] for request in subscriber.requests("/stuck")} == {"e0"}


def test_subscriptions_come_and_go(running: Running) -> None:
    """A new one gets what is sent after it was ready. Without its file it gets nothing, and with it again all that came
    meanwhile. Only `penstock remove` deletes its group."""
    installation, worker, subscriber = running
    assert post(worker.port, _target(installation), "early").status == 202
    two = Wanted("two", subscriber.script("/two", says(200)), "unordered")
    installation.resources.write(two)
    installation.wait_subscribers(worker, 2, LIMIT_S)
    assert post(worker.port, _target(installation), "both").status == 202
    for path in ("/one", "/two"):
        wait_until(f"{path} gets it", lambda path=path: _came(subscriber, path, "both"), LIMIT_S)  # type: ignore[misc]
    installation.wait_settled(["one", "two"], LIMIT_S)
    group = installation.group("two")
    installation.resources.remove("two")
    installation.wait_subscribers(worker, 1, LIMIT_S)
    assert post(worker.port, _target(installation), "late").status == 202
    wait_until("the other goes on", lambda: _came(subscriber, "/one", "late"), LIMIT_S)
    assert [request.attributes["id"] for request in subscriber.requests("/one")] == ["early", "both", "late"]
    assert [request.attributes["id"] for request in subscriber.requests("/two")] == ["both"]
    admin = AdminClient({"bootstrap.servers": installation.bootstrap})

    def groups() -> set[str]:
        return {listed.group_id for listed in admin.list_consumer_groups(request_timeout=120).result(180).valid}

    assert group in groups()
    installation.resources.write(two)
    installation.wait_subscribers(worker, 2, LIMIT_S)
    installation.wait_settled(["two"], LIMIT_S)
    assert [request.attributes["id"] for request in subscriber.requests("/two")] == ["both", "late"]
    installation.delete("two")
    wait_until("its group is deleted", lambda: group not in groups(), LIMIT_S)
