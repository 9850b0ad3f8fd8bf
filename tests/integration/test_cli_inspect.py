"""`status`, `lag`, `tail` and completion against a real Kafka: what they print, and that they join no group."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from agents.offsets.offset_tracker import OffsetTracker
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import status_topic
from knative.contract.records import Channel, ControllerReport, ResourceProblem
from tables.contract_table import encode_entry
from tables.status_table import REPORT_KEY, encode_report
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import REPOSITORY, free_port, wait_until

_LIMIT_S = 180


@pytest.fixture
def site(kafka_of_file: EmbeddedKafka, topic_name: Callable[[], str]) -> StoredInstallation:
    """On a Kafka in which no other test makes groups."""
    return StoredInstallation.make(kafka_of_file.bootstrap, topic_name())


def _groups(bootstrap: str) -> set[str]:
    client = AdminClient({"bootstrap.servers": bootstrap})  # kept: without it the answer would never come
    listing = client.list_consumer_groups(request_timeout=120).result(180)
    return {group.group_id for group in listing.valid}


def test_installation_that_is_not_there(site: StoredInstallation) -> None:
    """Said by every command that reads the contract; without a topic of statuses there are just none."""
    elsewhere = replace(site, instance="mistyped")
    says = f"The Kafka at {site.bootstrap} has no installation `mistyped`: no worker with this instance "
    for command in (["status"], ["lag"], ["dlq", "list"], ["tail", "ns/ch"]):
        done = elsewhere.penstock(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(says)
        assert "or set PENSTOCK_INSTANCE or PENSTOCK_KAFKA to those of your installation." in done.stderr
        assert "penstock status" not in done.stderr
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    for deleted in admin.delete_topics([status_topic(site.instance)], operation_timeout=120).values():
        deleted.result(180)
    assert "ns/ch" in site.penstock("status").stdout


def test_namespace_bounds_what_is_shown_and_a_wrong_one_is_an_error(site: StoredInstallation) -> None:
    """For status, lag and dead letters alike; a wrong one is an error that names the others."""
    site.subscribe("bill")
    other = Channel("o", 1, "other", "ch", site.topic, site.dlq_topic, 2)
    site.publish("o", encode_entry(other))
    status = json.loads(site.penstock("status", "-o", "json").stdout)
    assert [row["channel"] for row in status["channels"]] == ["ns/ch", "other/ch"]
    status = json.loads(site.penstock("status", "-n", "other", "-o", "json").stdout)
    assert [row["channel"] for row in status["channels"]] == ["other/ch"]
    assert status["subscriptions"] == []
    assert site.json("lag", "-n", "other") == []
    assert {row["subscription"] for row in site.json("lag", "-n", "other", "-A")} == {"ns/bill"}
    for command in (["status"], ["lag"], ["dlq", "list"]):
        done = site.penstock(*command, "-n", "nothing")
        assert (done.returncode, done.stdout) == (1, "")
        assert "The namespace nothing has no channels or subscriptions; known: ns, other." in done.stderr
    done = site.penstock("status", "ns/ch", "-n", "other")
    assert done.returncode == 1
    assert "There is no channel or subscription ns/ch; known: other/ch." in done.stderr
    done = site.penstock("dlq", "list", "--topic", site.dlq_topic, "-n", "ns")
    assert (done.returncode, "--topic cannot be combined" in done.stderr) == (2, True)


def test_lag_is_in_events_and_seconds_and_joins_no_group(site: StoredInstallation) -> None:
    """In events, less what is settled above the watermark, and in seconds; the furthest first; nothing joins."""
    fast, slow = site.subscribe("fast"), site.subscribe("slow")
    site.subscribe("new")
    site.events(range(6), ago_s=3600)  # 0-2 of each partition
    site.events(range(6, 20))  # 3-9 of each partition
    before = _groups(site.bootstrap)
    for partition in (0, 1):
        site.commit(fast, partition, OffsetTracker(10))
    held = OffsetTracker(2)
    for offset in range(2, 10):
        held.add(offset)
    for offset in (4, 5, 9):
        held.settle(offset)
    held.failed(2, 4)
    site.commit(slow, 0, held)
    site.commit(slow, 1, OffsetTracker(9))
    rows = site.json("lag")
    lags = [(row["subscription"], row["partition"], row["events"], row["state"]) for row in rows]
    assert lags == [
        ("ns/new", 0, 10, "nothing committed"), ("ns/new", 1, 10, "nothing committed"), ("ns/slow", 0, 5, ""),
        ("ns/slow", 1, 1, ""), ("ns/fast", 0, 0, ""), ("ns/fast", 1, 0, ""),
    ]  # fmt: skip
    assert (rows[2]["settled_above"], rows[2]["attempts"]) == (3, 4)
    assert all(3600 <= row["seconds"] < 3600 + _LIMIT_S for row in rows[:3])
    assert rows[3]["seconds"] < _LIMIT_S
    assert rows[4]["seconds"] == 0
    assert [row["subscription"] for row in site.json("lag", "--behind", "--subscription", "ns/slow")] == ["ns/slow"] * 2
    names = site.penstock("lag", "--behind", "-o", "name", "--channel", "ns/ch")
    assert names.stdout.splitlines() == ["subscription/ns/new", "subscription/ns/slow"]
    wide = site.penstock("lag", "-o", "wide").stdout
    assert "SETTLED ABOVE" in wide
    assert "1h" in wide
    assert yaml.safe_load(site.penstock("lag", "-o", "yaml").stdout)[0]["subscription"] == "ns/new"
    assert _groups(site.bootstrap) - before <= {fast.group, slow.group}  # those that this test committed for
    unknown = site.penstock("lag", "--subscription", "ns/other")
    assert unknown.returncode == 1
    assert "known: ns/fast, ns/new, ns/slow" in unknown.stderr


def _ids(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["attributes"]["id"] for line in done.stdout.splitlines()]


def test_tail_of_what_is_stored(site: StoredInstallation) -> None:
    site.events(range(20), ago_s=3600)
    site.events(range(20, 30))
    stored = ("tail", "ns/ch", "--no-follow", "-o", "json")
    assert _ids(site.penstock(*stored)) == [str(number) for number in range(20, 30)]
    assert _ids(site.penstock(*stored, "--last", "3")) == ["27", "28", "29"]
    assert sorted(_ids(site.penstock(*stored, "--since", "2h")), key=int) == [str(number) for number in range(30)]
    assert sorted(_ids(site.penstock(*stored, "--since", "10m"))) == [str(number) for number in range(20, 30)]
    assert _ids(site.penstock(*stored, "--filter", "type=odd", "--last", "2")) == ["27", "29"]
    assert _ids(site.penstock(*stored, "--filter", "type=odd", "--filter", "id=3")) == ["3"]
    assert _ids(site.penstock(*stored, "--filter", "type=odd", "--since", "10m", "--last", "1")) == ["29"]
    assert _ids(site.penstock(*stored, "--last", "0")) == []
    people = site.penstock("tail", "ns/ch", "--no-follow", "--last", "1", "--body").stdout.splitlines()
    assert people[0].endswith("29 odd /s data 29")
    assert people[1] == "    data 29"
    assert site.penstock("tail", "ns/ch", "--filter", "type").returncode == 2
    assert site.penstock("tail", "ns/ch", "--since", "soon").returncode == 2
    assert site.penstock("tail", "ns/other").returncode == 1


def test_tail_goes_on_with_new_events(site: StoredInstallation) -> None:
    """Until it is interrupted, which is no failure."""
    site.events([0, 1])
    before = _groups(site.bootstrap)
    process = subprocess.Popen(
        site.command("tail", "ns/ch", "--last", "1", "--filter", "type=odd", "-o", "json"),
        stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=site.environment(),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["attributes"]["id"] == "1"
        site.events([2, 3, 4, 5])
        assert {json.loads(process.stdout.readline())["attributes"]["id"] for _ in range(2)} == {"3", "5"}
        # Kafka may remove groups of former tests meanwhile.
        assert _groups(site.bootstrap) - before == set(), "it joins no group"
        process.send_signal(signal.SIGINT)
        assert process.wait(_LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_status_in_every_shape(site: StoredInstallation) -> None:
    site.subscribe("one")
    shapes: dict[str, Any] = {name: site.penstock("status", "-o", name) for name in ("json", "yaml", "name", "wide")}
    assert {done.returncode for done in shapes.values()} == {3}  # nobody serves it
    assert json.loads(shapes["json"].stdout) == yaml.safe_load(shapes["yaml"].stdout)
    assert shapes["name"].stdout.splitlines() == ["channel/ns/ch", "subscription/ns/one"]
    assert "DLQ TOPIC" in shapes["wide"].stdout
    assert "kafka.u-one" not in shapes["wide"].stdout
    (row,) = json.loads(shapes["json"].stdout)["subscriptions"]
    assert row["group"] == f"kafka.{row['uid']}"
    assert row["uid"].startswith("u-one")


def _watching(site: StoredInstallation, terminal: bool, tmp_path: Path) -> tuple[int, str]:
    """Watch until a subscription that is new has been shown, then Ctrl-C: exit code and output."""
    out = tmp_path / "out"
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    with out.open("wb") as file:
        process = subprocess.Popen(
            site.command("status", "--watch", "--every", "0.2"), stdout=slave if terminal else file,
            cwd=REPOSITORY, env=site.environment({"TERM": "xterm", "COLUMNS": "160"}),
        )  # fmt: skip
    os.close(slave)

    def shows(text: bytes) -> bool:
        if terminal:
            try:
                with out.open("ab") as file:
                    file.write(os.read(master, 1 << 20))
            except (BlockingIOError, OSError):
                time.sleep(0)
        return text in out.read_bytes()

    try:
        wait_until("the channel is shown", lambda: shows(b"ns/ch"), _LIMIT_S)
        site.subscribe("late")
        wait_until("the new subscription is shown", lambda: shows(b"ns/late"), _LIMIT_S)
        process.send_signal(signal.SIGINT)
        return process.wait(_LIMIT_S), out.read_text()
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_status_is_watched(site: StoredInstallation, terminal: bool, tmp_path: Path) -> None:
    code, screen = _watching(site, terminal, tmp_path)
    assert code == 0
    assert ("\x1b" in screen) is terminal


def test_status_ends_as_the_controller_says(site: StoredInstallation) -> None:
    """A channel without subscriptions is ready until something of it, or of any file, is refused."""
    assert site.penstock("status").returncode == 0
    taken = ResourceProblem("KafkaChannel", "ns", "ch", "False", "HostTaken", "host 'h' belongs to another; choose one")
    for problems, code in (([replace(taken, ready="True")], 0), ([taken], 3), ([replace(taken, kind="File")], 3)):
        producer = Producer({"bootstrap.servers": site.bootstrap, "acks": "all"})
        producer.produce(status_topic(site.instance), encode_report(ControllerReport(0.0, tuple(problems))), REPORT_KEY)
        assert producer.flush(180) == 0
        done = site.penstock("status")
        assert done.returncode == code
        assert "host 'h' belongs to another; choose one" in done.stdout


def _report(site: StoredInstallation, *problems: ResourceProblem) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap, "acks": "all"})
    producer.produce(status_topic(site.instance), encode_report(ControllerReport(0.0, problems)), REPORT_KEY)
    assert producer.flush(180) == 0


def test_status_of_one_name(site: StoredInstallation) -> None:
    """Only its rows, and only they decide how the command ends."""
    site.subscribe("one")
    _report(site, ResourceProblem("KafkaChannel", "ns", "bad", "False", "HostTaken", "m"))
    done = site.penstock("status", "ns/one", "-o", "name")
    assert (done.returncode, done.stdout.split()) == (3, ["subscription/ns/one"])
    for name in ("ns/ch", "channel/ns/ch", "KafkaChannel/ns/ch"):
        done = site.penstock("status", name, "-o", "name")
        assert (done.returncode, done.stdout.split()) == (3, ["channel/ns/ch"])
    assert "No channels." not in site.penstock("status", "ns/one").stdout
    both = site.penstock("status", "ns/one", "ns/bad", "ns/one", "-o", "json")
    rows = json.loads(both.stdout)
    assert ([row["channel"] for row in rows["channels"]], len(rows["subscriptions"])) == (["ns/bad"], 1)
    for name in ("ns/none", "subscription/ns/ch", "pod/ns/one"):
        none = site.penstock("status", name)
        assert (none.returncode, f"{name}; known: ns/bad, ns/ch, ns/one." in none.stderr) == (1, True), none.stderr


def test_status_waits_until_it_is_ready(site: StoredInstallation) -> None:
    """For a controller's word, for a name that comes, and for nothing else; and not longer than it may."""
    late = site.penstock("status", "--wait", "--timeout", "0.1")
    assert (late.returncode, "No controller has reported" in late.stderr) == (3, True)
    waiting = subprocess.Popen(
        site.command("status", "ns/new", "--wait", "--timeout", str(_LIMIT_S), "-o", "name"),
        stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=site.environment(),
    )  # fmt: skip
    _report(site)
    assert site.penstock("status", "--wait").returncode == 0
    site.publish("n", encode_entry(Channel("n", 1, "ns", "new", "n", "n.dlq", 1)))
    assert waiting.communicate(timeout=_LIMIT_S)[0].split() == ["channel/ns/new"]
    assert waiting.returncode == 0
    site.subscribe("one")  # that nobody serves
    late = site.penstock("status", "--wait", "--timeout", "0.1")
    assert (late.returncode, "ns/one" in late.stdout) == (3, True)
    assert "Not all resources are ready after 0.1 s." in late.stderr
    assert site.penstock("status", "--wait", "--watch").returncode == 2


def test_lag_of_one_name_is_watched(site: StoredInstallation, tmp_path: Path) -> None:
    site.subscribe("one")
    site.subscribe("two")
    site.events(range(4))
    assert {row["subscription"] for row in site.json("lag", "ns/two")} == {"ns/two"}
    assert site.penstock("lag", "ns/two", "--subscription", "ns/two").returncode == 2
    out = tmp_path / "out"
    with out.open("wb") as file, subprocess.Popen(
        site.command("lag", "ns/two", "--watch", "--every", "0.2", "-o", "json"), stdout=file, cwd=REPOSITORY,
        env=site.environment(),
    ) as watching:  # fmt: skip
        try:
            wait_until("a look", lambda: b'"events": 2' in out.read_bytes(), _LIMIT_S)
            site.events(range(2))
            wait_until("the next look", lambda: b'"events": 3' in out.read_bytes(), _LIMIT_S)
            watching.send_signal(signal.SIGINT)
            assert watching.wait(_LIMIT_S) == 0
        finally:
            watching.kill()
    assert b"ns/one" not in out.read_bytes()


def test_tail_ends_before_the_time_of_until(site: StoredInstallation) -> None:
    """Nothing that is newer, and an end; the last ones are those before that time."""
    site.events(range(4), ago_s=7200)
    site.events(range(4, 8), ago_s=3600)
    site.events(range(8, 12))
    for options, ids in (
        (("--until", "30m"), {0, 1, 2, 3, 4, 5, 6, 7}),
        (("--until", "90m"), {0, 1, 2, 3}),
        (("--until", "30m", "--last", "3"), {5, 6, 7}),
        (("--since", "90m", "--until", "30m"), {4, 5, 6, 7}),
        (("--since", "30m", "--until", "90m"), set()),
        (("--until", "30m", "--filter", "type=odd"), {1, 3, 5, 7}),
        (("--until", "3h"), set()),
    ):
        done = site.penstock("tail", "ns/ch", *options, "-o", "json")
        assert done.returncode == 0, done.stderr
        assert {int(json.loads(line)["attributes"]["id"]) for line in done.stdout.splitlines()} == ids, options


def _completions(site: StoredInstallation, words: str, **more: str) -> list[str]:
    done = subprocess.run(
        site.command(), capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=REPOSITORY,
        env=site.environment(
            {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), **more}
        ),
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_shell_completes_names(site: StoredInstallation) -> None:
    """From the contract; nothing at all, quickly, where there is none."""
    site.subscribe("one")
    site.subscribe("two")
    assert _completions(site, "penstock tail n") == ["ns/ch"]
    assert _completions(site, "penstock lag --subscription ns/t") == ["ns/two"]
    assert _completions(site, "penstock tail x") == []
    assert _completions(site, "penstock tail n", PENSTOCK_KAFKA=f"127.0.0.1:{free_port()}") == []
    assert _completions(site, "penstock tail n", PENSTOCK_KAFKA="junk") == []
    assert _completions(site, "penstock tail n", PENSTOCK_INSTANCE="nobody") == []
