"""The console of a real worker: what flows is seen, what failed is edited and redriven, offsets are moved, and every
act is in the audit topic."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.console import words
from tests.support.installation import Installation
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import Answered, exchange, request

pytestmark = pytest.mark.system

LIMIT_S = 180.0
_EVIL = "<script>alert(1)</script>"


def _send(worker: Worker, installation: Installation, id_: str, type_: str, body: bytes = b"{}") -> None:
    headers = [("ce-specversion", "1.0"), ("ce-source", "/shop"), ("ce-type", type_), ("ce-id", id_)]
    headers += [("ce-evil", _EVIL), ("content-type", "application/json")]
    assert exchange(worker.port, request(installation.resources.path, headers, body)).status == 202


def _links(page: str, start: str) -> list[str]:
    return [unescape(path) for path in re.findall(rf'href="({re.escape(start)}[^"]*)"', page)]


class Browser:
    """A person's browser without scripts, for the console at an admin port: pages as text, forms with their token."""

    def __init__(self, port: int) -> None:
        self._port = port

    def page(self, path: str) -> str:
        """The HTML of a page that is there."""
        answer = self._ask("GET", path)
        assert answer.status == 200, f"{path}: {answer.status} {words(answer.body.decode())}"
        return answer.body.decode()

    def words(self, path: str) -> str:
        """What a person reads there."""
        return words(self.page(path))

    def post(self, path: str, form: Mapping[str, str]) -> tuple[int, str]:
        """Send a form of this page: the status, and where it leads to or what the answer says."""
        token = re.search(r'name="form_token" value="([^"]+)"', self.page(path))
        assert token is not None, f"{path} has no form"
        answer = self._ask("POST", path, urlencode({"form_token": token[1], **form}).encode())
        return answer.status, answer.headers.get("location") or words(answer.body.decode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answered:
        host = f"127.0.0.1:{self._port}"
        headers = [("origin", f"http://{host}"), ("content-type", "application/x-www-form-urlencoded")]
        return exchange(self._port, request(path, headers if body is not None else (), body, method, host), method)


@dataclass(frozen=True)
class Stage:
    """A worker with a console, a broker with two Triggers, and the subscriber that answers them."""

    installation: Installation
    worker: Worker
    subscriber: ScriptedSubscriber

    @property
    def console(self) -> Browser:
        return Browser(self.worker.admin_port)

    @property
    def title(self) -> str:
        """Of the broker."""
        return f"Broker/{NAMESPACE}/{self.installation.resources.channel}"

    @property
    def events(self) -> str:
        """The page of its events."""
        return f"/events?of={self.title}"

    def event(self, id_: str) -> str:
        """What a person reads on the page of an event, found by its id."""
        (path,) = _links(self.console.page(f"{self.events}&id={id_}"), "/event?")
        return self.console.words(path)

    def wait_done(self, count: int) -> None:
        """Until this many redrives have ended well."""

        def is_done() -> bool:
            text = self.console.words("/letters")
            return text.count(" Done ") == count and "Under way" not in text

        wait_until(f"{count} redrives are done", is_done, LIMIT_S)


def test_what_failed_is_seen_edited_and_redriven(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path, is_broker=True, env={"PENSTOCK_CONSOLE": "write"})
    orders = {"filter": {"attributes": {"type": "order.created"}}}
    with ScriptedSubscriber() as subscriber:
        good = Wanted("good", subscriber.script("/good", says(200)), filter=orders)
        picky = subscriber.script("/picky", *[says(400, b"no amount")] * 5, says(200))
        installation.write([good, Wanted("picky", picky, "unordered", filter=orders)])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_triggers(["good", "picky"])
            stage = Stage(installation, worker, subscriber)
            assert "New events appear here" in stage.console.words(stage.events)
            for number in range(5):
                _send(worker, installation, f"e{number}", "order.created", b'{"amount":%d}' % number)
            _send(worker, installation, "other", "invoice")
            installation.wait_settled(["good", "picky"], LIMIT_S)

            _events_are_found(stage)
            _letters_are_redriven(stage)
            _a_redrive_is_stopped(stage)
            _offsets_are_moved(stage)
            _an_event_is_sent(stage)
            _all_of_it_is_in_the_audit_topic(stage)


def _events_are_found(stage: Stage) -> None:
    """As they come, from a place, with a filter, by id; and one of them with what became of it."""
    console, events = stage.console, stage.events

    def are_there() -> bool:
        return all(id_ in console.words(events) for id_ in ("e0", "e1", "e2", "other"))

    wait_until("the events are shown", are_there, LIMIT_S)
    assert _EVIL not in console.page(events)
    filtered = console.words(f"{events}&from=10m&filter=type%20LIKE%20%27inv%25%27")
    assert " other invoice /shop " in filtered
    assert " e1 " not in filtered
    placed = console.words(f"{events}&from=0/2")
    assert " e2 order.created " in placed
    assert " e1 " not in placed
    assert "is neither ATTRIBUTE=VALUE nor a valid CESQL" in console.words(f"{events}&filter=(((")

    words = stage.event("e1")
    assert "test/good trigger Delivered The event is settled" in words
    assert re.search(r"test/picky trigger Dead letter The event is a dead letter: .*400", words), words
    assert '{ "amount": 1 }' in words
    assert "--data-binary '{\"amount\":1}'" in words
    assert "test/good trigger Filtered The event does not match" in stage.event("other")


def _letters_are_redriven(stage: Stage) -> None:
    """A dry run of one, and then it is redriven; another one is edited before."""
    console, subscriber = stage.console, stage.subscriber
    refs = sorted(re.findall(r'name="pick-\d+" value="([^"]+)"', console.page("/letters")))
    assert len(refs) == 5
    picked = {"scope": "picked", "pick-1": refs[0], "rate": "20/s", "limit": ""}
    status, text = console.post("/letters", {"do": "dry", **picked})
    assert (status, "1 would be redriven" in text, "Nothing was sent yet" in text) == (200, True, True)
    assert len(subscriber.requests("/picky")) == 5
    status, text = console.post("/letters", {"do": "redrive", **picked, "rate": "fast"})
    assert (status, "Rate 'fast' is not a valid rate" in text) == (200, True)
    assert console.post("/letters", {"do": "redrive", **picked}) == (303, "/letters")
    stage.wait_done(1)
    assert "1 redriven, 0 failed" in console.words("/letters")
    assert [sent.attributes["id"] for sent in subscriber.requests("/picky")[5:]] == ["e0"]
    assert "test/picky trigger Redriven" in stage.event("e0")

    letter = f"/letter?{urlencode({'ref': refs[1]})}"
    assert "no amount" in console.words(letter)
    attributes = {"id": "e1", "source": "/shop", "specversion": "1.0", "type": "order.mended"}
    edited = {"attributes": json.dumps(attributes), "data": '{"amount":\r\n7}'}
    status, text = console.post(letter, {**edited, "attributes": edited["attributes"].replace("e1", "e9")})
    assert "The id of a dead letter cannot be changed" in text
    assert console.post(letter, edited) == (303, "/letters")
    stage.wait_done(2)
    sent = subscriber.requests("/picky")[-1]
    assert (sent.attributes["id"], sent.attributes["type"], sent.body) == ("e1", "order.mended", b'{"amount":\n7}')


def _a_redrive_is_stopped(stage: Stage) -> None:
    """The first letter goes at once, and the second one an hour later."""
    console = stage.console
    assert console.post("/letters", {"do": "redrive", "scope": "all", "rate": "1/h", "limit": ""}) == (303, "/letters")
    wait_until("one is redriven", lambda: "1 redriven, 0 failed, 2 were redriven" in console.words("/letters"), LIMIT_S)
    status, text = console.post("/letters", {"do": "redrive", "scope": "all", "rate": "", "limit": ""})
    assert (status, "has already started this, and it has not ended" in text) == (200, True)
    (task,) = re.findall(r'name="task" value="([^"]+)"', console.page("/letters"))
    assert console.post("/audit", {"task": task}) == (303, "/audit")
    wait_until("it has ended", lambda: "The run ended early: it was stopped" in console.words("/letters"), LIMIT_S)
    assert len(stage.subscriber.requests("/picky")) == 8


def _offsets_are_moved(stage: Stage) -> None:
    """As the preview says."""
    console, subscriber = stage.console, stage.subscriber
    move = f"/move?of=Trigger/{NAMESPACE}/good&to=-2"
    row = "2 repeated, 0 skipped Partition Offset now New offset Repeats Skips 0 6 4 2 0"
    assert row in console.words(move)
    before = len(subscriber.requests("/good"))
    assert console.post(move, {}) == (303, "/move")
    wait_until("it is moved", lambda: "Moved: partition 0 to 4" in console.words("/move"), LIMIT_S)
    wait_until("e4 comes again", lambda: len(subscriber.requests("/good")) == before + 1, LIMIT_S)


def _an_event_is_sent(stage: Stage) -> None:
    form = {"of": stage.title, "type": "order.created", "source": "/form", "id": "sent", "data": '{"amount":9}'}
    assert "202 Kafka has stored the event sent" in stage.console.post("/send", form)[1]

    def is_delivered() -> bool:
        return stage.subscriber.requests("/good")[-1].attributes["id"] == "sent"

    wait_until("it is delivered", is_delivered, LIMIT_S)
    assert "Bad-Name" in stage.console.post("/send", {**form, "more": "Bad-Name=1"})[1]


def _all_of_it_is_in_the_audit_topic(stage: Stage) -> None:
    """What was refused is not; a command prints it too."""
    audit = stage.console.words("/audit")
    for deed in ("Redrive of 1 letter:", "edited", f"Seek of Trigger/{NAMESPACE}/good to -2", "of type order.created"):
        assert deed in audit, audit
    name = f"{stage.installation.name}.audit"
    done = stage.installation.penstock("tail", "--topic", name, "--from-beginning", "--no-follow", "-o", "json")
    acts = [json.loads(json.loads(line)["data"])["act"] for line in done.stdout.splitlines()]
    assert acts == [*["redrive", "redrive-ended"] * 2, "redrive", "stop", "redrive-ended", "seek", "seek-ended", "send"]
