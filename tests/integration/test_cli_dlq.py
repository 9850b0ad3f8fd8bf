"""`penstock dlq` against a real Kafka and a real subscriber: seen, chosen, redriven once, never to the wrong one."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.local.kafka import EmbeddedKafka
from app.operations.dead_letters.ledger import read_ledger
from app.operations.dead_letters.letters import DeadLetter
from app.operations.dead_letters.redrive import Redrive, RedriveConfig
from app.operations.dead_letters.summary import Summary
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.contract.records import TRIGGER
from tables.kafka.topic_reader import StoredRecord, TopicReader
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import REPOSITORY, wait_until
from tests.support.scripted_server import silence
from tests.support.subscriber import ScriptedSubscriber, says

_LIMIT_S = 180
EVENT_HEADERS = ("ce-id: reply-1", "ce-source: /subscriber", "ce-type: reply", "ce-specversion: 1.0")


@pytest.fixture
def site(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> StoredInstallation:
    return StoredInstallation.make(kafka.bootstrap, topic_name())


@pytest.fixture
def subscriber() -> Iterator[ScriptedSubscriber]:
    with ScriptedSubscriber() as server:
        yield server


def _ids(subscriber: ScriptedSubscriber, path: str) -> list[str]:
    return [request.attributes["id"] for request in subscriber.requests(path)]


def test_letters_are_listed_and_shown(site: StoredInstallation) -> None:
    assert site.json("dlq", "list") == []
    assert "No dead letters" in site.penstock("dlq", "list").stdout
    subscription, two = site.subscribe("one"), site.subscribe("two")
    site.dead_letters(subscription, ["1", "2"], ago_s=7200)
    site.dead_letters(two, ["1"], "timeout: no answer")
    site.dead_letters(subscription, ["binary"], "timeout: no answer")
    groups = site.json("dlq", "list")
    letters = [(row["subscription"], row["reason"], row["count"], row["redriven"]) for row in groups]
    assert letters == [
        ("ns/one", "the answer was 503", 2, 0), ("ns/one", "timeout: no answer", 1, 0),
        ("ns/two", "timeout: no answer", 1, 0),
    ]  # fmt: skip
    assert groups[0]["oldest"] <= groups[0]["newest"] < groups[1]["oldest"]
    assert len(site.json("dlq", "list", "--reason", "TIMEOUT")) == 2
    assert len(site.json("dlq", "list", "--since", "1h")) == 2
    assert len(site.json("dlq", "list", "--until", "1h", "--channel", "ns/ch")) == 1
    assert site.penstock("dlq", "list", "-o", "name").stdout.split() == ["subscription/ns/one", "subscription/ns/two"]
    refs = site.penstock("dlq", "list", "--each", "--subscription", "ns/two", "-o", "name").stdout.split()
    assert refs == [f"{site.dlq_topic}/0/2"]
    letter = site.json("dlq", "show", *refs)
    assert letter["attributes"].items() >= {"id": "1", "note": "größer", "knativeerrorcode": "503"}.items()
    assert letter["headers"].items() >= {"penstock-attempts": "3", "penstock-subscription": "ns/two"}.items()
    assert (letter["answer"], letter["data"], letter["redriven"]) == ("busy", "data of 1", None)
    binary = site.json("dlq", "show", "--last", "1")
    assert binary["attributes"]["id"] == "binary"
    assert "answer_base64" in binary
    people = site.penstock("dlq", "show", "--subscription", "ns/one", "--reason", "timeout").stdout
    assert "  penstock-reason: timeout: no answer" in people
    assert "    busy \\xff" in people
    assert site.penstock("dlq", "show", f"{site.dlq_topic}/0/99").returncode == 1
    assert site.penstock("dlq", "show", "junk").returncode == 2


def test_edited_letter_is_redriven_once(
    site: StoredInstallation, subscriber: ScriptedSubscriber, tmp_path: Path
) -> None:
    """What `dlq show` printed, edited: the subscriber gets the new data, and only then it counts as redriven."""
    subscription = site.subscribe("one", subscriber.url("/one"))
    site.dead_letters(subscription, ["1", "2"])
    file = tmp_path / "letter.json"
    letter = site.json("dlq", "show", f"{site.dlq_topic}/0/0")
    letter["data"], letter["attributes"]["type"] = "fixed", "fixed.type"
    file.write_text(json.dumps(letter))
    dry = site.penstock("dlq", "redrive", "--yes", "--with", str(file), "--dry-run")
    assert (dry.returncode, subscriber.requests("/one")) == (0, [])
    assert site.json("dlq", "redrive", "--yes", "--with", str(file))["redriven"] == 1
    (request,) = subscriber.requests("/one")
    assert (request.body, request.attributes["type"], request.attributes["id"]) == (b"fixed", "fixed.type", "1")
    again = site.json("dlq", "redrive", "--yes", "--with", str(file))
    assert (again["redriven"], again["already"]) == (0, 1)
    groups = site.json("dlq", "list")
    assert [(row["count"], row["redriven"]) for row in groups] == [(2, 1)]
    wrong = site.penstock("dlq", "redrive", "--yes", "--with", str(file), "--all")
    assert (wrong.returncode, "Remove the other options that choose letters" in wrong.stderr) == (2, True)


def test_letter_goes_to_its_own_subscription_as_it_was(
    site: StoredInstallation, subscriber: ScriptedSubscriber
) -> None:
    subscription = site.subscribe("one", subscriber.url("/one"))
    two = site.subscribe("two", subscriber.url("/two"))
    site.dead_letters(subscription, ["1", "2", "3"])
    site.dead_letters(two, ["1", "4"])
    dry = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one", "--dry-run")
    assert [(row["subscription"], row["count"]) for row in dry] == [("ns/one", 3)]
    assert site.penstock("dlq", "redrive", "--yes").returncode == 2  # nothing says what
    assert subscriber.requests("/one") == []
    first = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one", "--limit", "2")
    assert (first["redriven"], first["complete"]) == (2, False)
    second = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")
    assert (second["redriven"], second["already"], second["complete"]) == (1, 2, True)
    assert site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")["redriven"] == 0
    assert _ids(subscriber, "/one") == ["1", "2", "3"]
    assert subscriber.requests("/two") == []
    request = subscriber.requests("/one")[0]
    assert request.attributes == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "odd",
        "note": "gr%C3%B6%C3%9Fer",
    }
    assert request.body == b"data of 1"
    names = {name for name, _ in request.pairs}
    assert not {name for name in names if name.startswith((b"penstock", b"ce-knativeerror"))}
    assert (request.header("content-type"), request.header("traceparent")) == ("text/plain", "00-1-2-01")
    assert (request.header("prefer"), request.header("kn-namespace")) == ("reply", "ns")
    groups = {row["subscription"]: (row["count"], row["redriven"]) for row in site.json("dlq", "list")}
    assert groups == {"ns/one": (3, 3), "ns/two": (2, 0)}
    assert "redriven 20" in site.penstock("dlq", "show", f"{site.dlq_topic}/0/0").stdout


def test_what_fails_stays_and_the_exit_code_says_how_much(
    site: StoredInstallation, subscriber: ScriptedSubscriber
) -> None:
    """Bounded retries; a refusal that no retry mends is not retried; nothing is dead-lettered once more."""
    uri = subscriber.script("/one", says(503), says(200), says(400), *[says(503)] * 3, says(200))
    subscription = site.subscribe("one", uri)
    site.dead_letters(subscription, ["1", "2", "3"])
    partly = site.penstock("dlq", "redrive", "--yes", "--subscription", "ns/one", "--retries", "2", "-o", "json")
    assert partly.returncode == 4, partly.stderr
    result = json.loads(partly.stdout)
    assert (result["redriven"], result["failed"]) == (1, 2)
    assert {row["reason"] for row in result["failures"]} == {"the answer was 400", "the answer was 503"}
    assert _ids(subscriber, "/one") == ["1", "1", "2", "3", "3", "3"]
    assert site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")["redriven"] == 2
    assert sum(row["count"] for row in site.json("dlq", "list")) == 3
    away = site.subscribe("away", "http://127.0.0.1:1/")
    site.dead_letters(away, [str(number) for number in range(9)])
    none = site.penstock("dlq", "redrive", "--yes", "--subscription", "ns/away", "--retries", "0", "--failures", "3")
    assert none.returncode == 1
    assert "3 letters in a row failed" in none.stdout


def test_what_cannot_be_redriven(site: StoredInstallation, subscriber: ScriptedSubscriber) -> None:
    """A deleted subscription, and an address that the guard denies."""
    gone = site.subscribe("gone", subscriber.url("/gone"))
    site.dead_letters(gone, ["1"])
    site.publish(gone.uid, None)
    done = site.penstock("dlq", "redrive", "--yes", "--all")
    assert done.returncode == 1
    assert "the subscription ns/gone no longer exists" in done.stdout
    site.subscribe("gone", subscriber.url("/gone"))
    command = site.command("dlq", "redrive", "--yes", "--subscription", "ns/gone")
    env = site.environment({"PENSTOCK_EGRESS_ALLOW_LOOPBACK": "no"})
    refused = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=env)
    assert refused.returncode == 1
    assert "loopback" in refused.stdout
    assert subscriber.requests("/gone") == []


@pytest.mark.parametrize("command", [("list",), ("show",), ("redrive", "--dry-run"), ("redrive", "--yes")])
def test_subscription_that_nothing_knows_is_an_error(site: StoredInstallation, command: tuple[str, ...]) -> None:
    """It is none while its letters are there, whatever else is asked for."""
    site.subscribe("one")
    gone = site.subscribe("gone")
    site.dead_letters(gone, ["1"])
    site.publish(gone.uid, None)
    unknown = site.penstock("dlq", *command, "--subscription", "ns/onne")
    assert unknown.returncode == 1
    assert "There is no subscription ns/onne; known: ns/one." in unknown.stderr
    assert unknown.stdout == ""
    for wish in ("--subscription", "--channel"):
        bare = site.penstock("dlq", *command, wish, "one")
        assert bare.returncode == 2
        assert f"{wish} 'one' is not NAMESPACE/NAME." in bare.stderr
    for name in ("ns/one", "ns/gone"):
        done = site.penstock("dlq", *command, "--subscription", name, "--reason", "another")
        assert (done.returncode, done.stderr) == (0, "")


def test_reply_goes_where_replies_go(site: StoredInstallation, subscriber: ScriptedSubscriber) -> None:
    """And a letter counts as redriven only when that has taken it."""
    answer = says(200, b"hi", *EVENT_HEADERS)
    uri = subscriber.script("/one", answer)
    subscription = site.subscribe("one", uri, subscriber.script("/reply", says(400), says(202)))
    site.dead_letters(subscription, ["1"])
    assert site.penstock("dlq", "redrive", "--yes", "--all").returncode == 1
    assert site.json("dlq", "redrive", "--yes", "--all")["redriven"] == 1
    assert _ids(subscriber, "/reply") == ["reply-1", "reply-1"]


def test_reply_to_a_trigger_is_stored_as_a_worker_does(
    site: StoredInstallation, subscriber: ScriptedSubscriber
) -> None:
    """In the partition of its key, even if it is large; a loop of replies does not begin again."""
    keys = [f"key-{number}" for number in range(8)]
    replies = [says(200, b"x" * 1_000_100, *EVENT_HEADERS, f"ce-partitionkey: {key}") for key in [*keys, "deep"]]
    site.dead_letters(site.subscribe("one", subscriber.script("/one", *replies), kind=TRIGGER), [*keys, "deep"])
    done = site.penstock("dlq", "redrive", "--yes", "--all", "--retries", "0", "-o", "json")
    result = json.loads(done.stdout)
    assert (result["redriven"], result["failed"]) == (8, 1), result
    assert "more than 64 replies led to this event" in done.stderr
    client = {"bootstrap.servers": site.bootstrap}
    with TopicReader(site.topic, client) as reader:
        stored = {record.key or b"": record for record in reader.stored()}
    assert sorted(stored) == [key.encode() for key in keys]
    assert {dict(record.headers)[REPLY_DEPTH] for record in stored.values()} == {b"1"}
    as_java: dict[bytes, int | None] = {}
    producer = Producer({**client, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            site.topic, b"", key, on_delivery=lambda _, it: as_java.update({it.key() or b"": it.partition()})
        )
    assert producer.flush(_LIMIT_S) == 0
    assert {key: record.partition for key, record in stored.items()} == as_java


def test_interruption_also_ends_a_run_that_skips_letters(
    site: StoredInstallation, subscriber: ScriptedSubscriber
) -> None:
    subscription = site.subscribe("one", subscriber.url("/one"))
    site.dead_letters(subscription, ["1", "2"])
    assert site.json("dlq", "redrive", "--yes", "--all")["redriven"] == 2
    client = {"bootstrap.servers": site.bootstrap}
    ledger = read_ledger(client, site.instance)

    async def skip() -> Summary:
        nothing: Any = None  # no letter is sent or recorded
        run = Redrive(RedriveConfig(), nothing, [subscription], ledger, nothing, nothing)

        def letters() -> Iterator[DeadLetter]:
            for record in itertools.cycle(_records(site)):
                if run.summary.already and not run.summary.stopped:
                    loop.call_soon_threadsafe(run.stop, "it was interrupted")
                yield DeadLetter(record)

        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_LIMIT_S):
            return await run.run(letters())

    summary = asyncio.run(skip())
    assert (summary.stopped, summary.complete, summary.redriven) == ("it was interrupted", False, 0)


def test_marks_go_with_their_letters(site: StoredInstallation, subscriber: ScriptedSubscriber) -> None:
    """Retention removes letters, the next run their marks; marks of a recreated topic do not count."""
    subscription = site.subscribe("one", subscriber.url("/one"))
    site.dead_letters(subscription, ["1", "2", "3"])
    assert site.json("dlq", "redrive", "--yes", "--all")["redriven"] == 3
    client = {"bootstrap.servers": site.bootstrap}
    letters = [DeadLetter(record) for record in _records(site)]
    assert all(read_ledger(client, site.instance).has(letter) for letter in letters)
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    for done in admin.delete_records([TopicPartition(site.dlq_topic, 0, 2)]).values():
        done.result(180)
    assert site.json("dlq", "redrive", "--yes", "--all")["already"] == 1
    marks = read_ledger(client, site.instance)
    assert [marks.has(letter) for letter in letters] == [False, False, True]
    for done in admin.delete_topics([site.dlq_topic], operation_timeout=120).values():
        done.result(180)
    wait_until("the topic can be created again", lambda: _made(admin, site.dlq_topic), _LIMIT_S, 0.2)
    site.dead_letters(subscription, ["4", "5", "6"])
    assert site.json("dlq", "redrive", "--yes", "--all")["redriven"] == 3
    assert _ids(subscriber, "/one") == ["1", "2", "3", "4", "5", "6"]


def _records(site: StoredInstallation) -> list[StoredRecord]:
    with TopicReader(site.dlq_topic, {"bootstrap.servers": site.bootstrap}) as reader:
        return list(reader.stored())


def _made(admin: AdminClient, topic: str) -> bool:
    for done in admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=120).values():
        try:
            done.result(180)
        except KafkaException:
            return False  # its former self is still being deleted
    return True


def _start(site: StoredInstallation, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        site.command("dlq", "redrive", "--yes", "--subscription", "ns/one", *arguments),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPOSITORY, env=site.environment(),
    )  # fmt: skip


def test_interrupted_run_finishes_what_is_in_flight(site: StoredInstallation, subscriber: ScriptedSubscriber) -> None:
    subscription = site.subscribe("one", subscriber.url("/one"))
    site.dead_letters(subscription, [str(number) for number in range(50)])
    with _start(site, "--rate", "20/s", "-o", "json") as process:
        wait_until("some are redriven", lambda: len(subscriber.requests("/one")) >= 5, _LIMIT_S)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 4
    result = json.loads(output)
    assert (result["stopped"], result["complete"]) == ("it was interrupted", False)
    assert result["redriven"] == len(subscriber.requests("/one")) < 50
    assert site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")["redriven"] == 50 - result["redriven"]
    assert _ids(subscriber, "/one") == [str(number) for number in range(50)]


def test_two_at_a_time_deliver_each_letter_once(site: StoredInstallation, subscriber: ScriptedSubscriber) -> None:
    subscription = site.subscribe("one", subscriber.url("/one"))
    site.dead_letters(subscription, [str(number) for number in range(30)])
    with _start(site, "--rate", "20/s", "-o", "json") as first:
        wait_until("the first is at work", lambda: len(subscriber.requests("/one")) >= 3, _LIMIT_S)
        second = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")
        output, _ = first.communicate(timeout=_LIMIT_S)
    assert json.loads(output)["redriven"] == second["already"] == 30
    assert _ids(subscriber, "/one") == [str(number) for number in range(30)]


def test_subscriber_that_hangs_does_not_hold_up_the_end(
    site: StoredInstallation, subscriber: ScriptedSubscriber
) -> None:
    subscription = site.subscribe("one", subscriber.script("/one", silence()))
    site.dead_letters(subscription, ["1"])
    with _start(site) as process:
        wait_until("it is asked", lambda: len(subscriber.requests("/one")) == 1, _LIMIT_S)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_LIMIT_S / 2)
    assert process.returncode == 1


@pytest.mark.system
@pytest.mark.parametrize("in_flight", [1, 8])
def test_redrive_that_is_killed_goes_on(
    site: StoredInstallation, subscriber: ScriptedSubscriber, in_flight: int
) -> None:
    """200 letters, SIGKILL half-way, run again: each at least once, to this subscription only, at most 1 s repeated."""
    ids = [str(number) for number in range(200)]
    subscription = site.subscribe("one", subscriber.url("/one"))
    two = site.subscribe("two", subscriber.url("/two"))
    site.dead_letters(subscription, ids)
    site.dead_letters(two, ids)
    process = _start(site, "--in-flight", str(in_flight), "--rate", "200/s")
    try:
        wait_until("half of them are redriven", lambda: len(subscriber.requests("/one")) >= 100, _LIMIT_S, 0.005)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        killed_s = time.time()
        process.communicate(timeout=_LIMIT_S)
    first = subscriber.requests("/one")
    assert 100 <= len(first) < 200
    summary = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one", "--in-flight", str(in_flight))
    assert summary["already"] + summary["redriven"] == 200
    assert summary["already"] >= len(first) - in_flight
    counts = Counter(_ids(subscriber, "/one"))
    assert counts.keys() == set(ids)
    repeated = {event_id for event_id, count in counts.items() if count > 1}
    assert len(repeated) <= in_flight
    assert max(counts.values()) <= 2
    assert all(request.time_s > killed_s - 1.0 for request in first if request.attributes["id"] in repeated)
    assert subscriber.requests("/two") == []
    groups = {row["subscription"]: (row["count"], row["redriven"]) for row in site.json("dlq", "list")}
    assert groups == {"ns/one": (200, 200), "ns/two": (200, 0)}
