"""`penstock up` for real: an event travels, Ctrl-C stops everything in time, and nothing outlives a killed command."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from tests.support.proc import children, start_time
from tests.support.processes import free_port, penstock, wait_until

_REPOSITORY = Path(__file__).parents[2]
_HOST = "my-kafkachannel-service.mynamespace.svc.cluster.local"
_START_LIMIT_S = 300.0
_STOP_LIMIT_S = 10.0
_LIMIT_S = 180.0  #: a machine may be busy


class _BusyMachine:
    """How long no processor of this machine was idle. What is promised in seconds is promised without these: others had
    the processors. Of what runs alone that is nothing, unless it keeps every processor busy itself."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at_s, self._idle = time.monotonic(), _idle_ticks()

    def look(self) -> None:
        """To be called some ten times a second."""
        now_s, idle = time.monotonic(), _idle_ticks()
        if idle == self._idle:
            self.seconds += now_s - self._at_s
        self._at_s, self._idle = now_s, idle


def _idle_ticks() -> int:
    """Of all processors, since the start of the machine."""
    with open("/proc/stat") as stat:
        return sum(map(int, stat.readline().split()[4:6]))


class Up:
    """The command, its lines, and the processes it started."""

    def __init__(self, folder: Path) -> None:
        """With ports of its own each time; the Kafka keeps its data in the folder."""
        self.home = folder
        numbers: set[int] = set()
        while len(numbers) < 4:
            numbers.add(free_port())
        self.http_port, self.admin_port, subscriber_port, self.kafka_port = sorted(numbers)
        options = {
            "--http-port": self.http_port,
            "--admin-port": self.admin_port,
            "--subscriber-port": subscriber_port,
            "--kafka-port": self.kafka_port,
            "--data": folder / "kafka",
            "--home": folder,
            "--heap": "256m",
            "--timeout": _START_LIMIT_S,
        }
        command = [sys.executable, "-m", "app.cli", "up", *(str(part) for pair in options.items() for part in pair)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=_REPOSITORY
        )
        self.lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def wait_for(self, words: str, limit_s: float) -> str:
        """The next line with these words."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and (self.process.poll() is None or not self.lines.empty()):
            try:
                line = self.lines.get(timeout=0.2)
            except Empty:
                continue
            if words in line:
                return line
        log = self.home / "logs" / "worker.log"
        tail = log.read_text().splitlines()[-60:] if log.exists() else []
        raise AssertionError("\n".join([f"{words!r} never came; exit code {self.process.poll()}", *tail]))

    def children(self) -> dict[int, int | None]:
        """Processes that the command started -> start time."""
        return {pid: start_time(pid) for pid in children(self.process.pid)}

    def close(self) -> None:
        """SIGKILL if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    try:
        running.wait_for("Penstock is up", _START_LIMIT_S)
        yield running
    finally:
        running.close()


def _post(up: Up, event_id: str, channel: str = "") -> int:
    """The status; of the quickstart's channel by its host, of another one by its path."""
    headers = {"ce-id": event_id, "ce-source": "/t", "ce-specversion": "1.0", "ce-type": "t", "Host": _HOST,
               "content-type": "application/json"}  # fmt: skip
    url = f"http://127.0.0.1:{up.http_port}/" + (f"channels/default/{channel}" if channel else "")
    request = urllib.request.Request(url, data=b'{"a": 1}', headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def _consumed(up: Up) -> dict[str, float]:
    """What each Kafka client has taken from the topic of the channel, over its partitions."""
    with urllib.request.urlopen(f"http://127.0.0.1:{up.admin_port}/metrics", timeout=_LIMIT_S) as metrics:
        text = metrics.read().decode()
    totals: dict[str, float] = {}
    for labels, value in re.findall(r"^eventing_kafka_consumed_msg_count\{(.*)\} (\S+)$", text, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if pairs["topic"].endswith(".quickstart"):
            totals[pairs["consumer"]] = totals.get(pairs["consumer"], 0.0) + float(value)
    return totals


def _moved(before: dict[str, float], after: dict[str, float]) -> list[float]:
    return [value - before.get(consumer, 0.0) for consumer, value in after.items()]


def _dead_letter(up: Up) -> dict[str, Any]:
    command = ["tail", "--dlq", "--from-beginning", "--count", "1", "--timeout", "60", "-o", "json"]
    done = penstock(*command, "--kafka", f"127.0.0.1:{up.kafka_port}")
    assert done.returncode == 0, done.stderr
    letter: dict[str, Any] = json.loads(done.stdout)
    return letter


def _gone(children: dict[int, int | None], limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while any(start_time(pid) == started for pid, started in children.items()):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_event_travels_and_ctrl_c_stops_everything(up: Up) -> None:
    """202, printed by both subscriptions' subscriber, counted once by each; the tenth of one is a dead letter that says
    why; and all is gone within ten seconds of Ctrl-C."""
    up.wait_for(f"PENSTOCK_HTTP_PORT={up.http_port}", 180)
    up.wait_for("penstock send", _LIMIT_S)
    before = _consumed(up)
    assert _post(up, "123") == 202
    assert {up.wait_for("id=123", _LIMIT_S).split()[0] for _ in range(2)} == {"good", "picky"}
    with urllib.request.urlopen(
        f"http://127.0.0.1:{up.http_port}/subscribers/default/quickstart", timeout=_LIMIT_S
    ) as rows:
        assert [row["ready"] for row in json.loads(rows.read())["subscribers"]] == ["True", "True"]
    wait_until("the metrics show it", lambda: _moved(before, _consumed(up)) == [1.0, 1.0], _LIMIT_S)
    for number in range(9):
        assert _post(up, str(number)) == 202
    letter = _dead_letter(up)
    assert letter["attributes"]["source"] == "/t"
    assert json.loads(letter["data"]) == {"a": 1}
    assert letter["attributes"]["knativeerrordest"].endswith("/picky")
    assert letter["attributes"]["knativeerrorcode"] == "500"
    assert b"rejects every tenth event" in base64.b64decode(letter["attributes"]["knativeerrordata"])
    children = up.children()
    assert len(children) == 3
    began, busy = time.monotonic(), _BusyMachine()
    up.process.send_signal(signal.SIGINT)
    while up.process.poll() is None:
        busy.look()
        assert time.monotonic() - began < _LIMIT_S
        time.sleep(0.1)
    assert up.process.returncode == 0
    assert time.monotonic() - began - busy.seconds < _STOP_LIMIT_S
    assert _gone(children, 0)


def test_address_that_a_channel_publishes_can_be_reached(up: Up) -> None:
    """It is what a `ref` to the channel stands for; the names of a cluster mean nothing here."""
    status = json.loads((up.home / "state" / "KafkaChannel" / "default.quickstart.json").read_text("utf-8"))["status"]
    assert status["address"]["url"] == f"http://127.0.0.1:{up.http_port}/channels/default/quickstart"


_MINE = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata: {name: mine}
"""


def _served(up: Up, name: str) -> dict[str, Any]:
    path = up.home / "state" / "KafkaChannel" / f"default.{name}.json"
    wait_until(f"{name} has a status", path.exists, _LIMIT_S)
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def test_what_was_edited_in_the_quickstart_is_there_after_another_start(tmp_path: Path) -> None:
    """With another port of the subscriber: the user's channel is the same one, with its event."""
    resources = tmp_path / "quickstart"
    first = Up(tmp_path)
    try:
        first.wait_for(f"Subscriptions from {resources}", _START_LIMIT_S)
        (resources / "mine.yaml").write_text(_MINE)
        uid = _served(first, "mine")["metadata"]["uid"]
        wait_until("the channel takes events", lambda: _post(first, "kept", "mine") == 202, _LIMIT_S)
        first.process.send_signal(signal.SIGINT)
        assert first.process.wait(_LIMIT_S) == 0
    finally:
        first.close()
    again = Up(tmp_path)
    try:
        again.wait_for("Penstock is up", _START_LIMIT_S)
        assert (resources / "mine.yaml").read_text() == _MINE
        assert _served(again, "mine")["metadata"]["uid"] == uid
        command = ["tail", "default/mine", "--from-beginning", "--count", "1", "--timeout", "60"]
        done = penstock(*command, "-o", "json", "--kafka", f"127.0.0.1:{again.kafka_port}")
        assert json.loads(done.stdout)["attributes"]["id"] == "kept", done.stderr
        assert _post(again, "123") == 202
        assert {again.wait_for("id=123", _LIMIT_S).split()[0] for _ in range(2)} == {"good", "picky"}, (
            "the new port is known"
        )
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(_LIMIT_S) == 0
    finally:
        again.close()


def test_nothing_outlives_a_killed_command(up: Up) -> None:
    """SIGKILL leaves it no chance to stop anything: the kernel does."""
    children = up.children()
    assert len(children) == 3
    os.kill(up.process.pid, signal.SIGKILL)
    assert _gone(children, _LIMIT_S)


def test_child_that_ends_ends_everything(up: Up) -> None:
    """The worker killed: exit code 1, and no other process is left."""
    children = up.children()
    worker = next(pid for pid in children if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(worker, signal.SIGKILL)
    assert up.process.wait(_LIMIT_S) == 1
    assert _gone(children, 0)
