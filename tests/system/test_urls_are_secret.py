"""User, password and query of URLs are in the contract only: a word in them is looked for in all that is shown.

A real worker delivers, retries, gives up, replies and waits in vain; then its log, its pages, its state files, the
topics, the requests that it sent, its spans and the output of the commands are searched.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import contract_topic
from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import REPOSITORY, Worker, free_port, get, run, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.scripted_server import silence
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.collector import Collector
from tests.system.sending import PLAIN, post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
SECRET = f"canary{uuid.uuid4().hex}"
QUERY = f"?token={SECRET}&{SECRET}"
EVENT = [f"{name}: {value!s}" for name, value in [("ce-id", "reply"), *PLAIN]]
RETRY = {"retry": 1, "backoffDelay": "PT0.01S"}

#: Files that the controller refuses, each with the word.
REFUSED = {
    "credentials": {"uri": f"http://{SECRET}:{SECRET}@127.0.0.1/"},
    "host": {"uri": f"http:///{QUERY}"},
    "port": {"uri": f"http://user:{SECRET}"},
    "fragment": {"uri": f"http://127.0.0.1/{QUERY}#{SECRET}"},
    "text": f"http://{SECRET}@127.0.0.1/{QUERY}",
    "text-without-scheme": f"127.0.0.1:80/{QUERY}",
    "text-with-a-slash": f"http://user:pw/{SECRET}@127.0.0.1/",
    "key": {f"http://127.0.0.1/{QUERY}": None},
    "name-of-a-ref": {"ref": {"apiVersion": "v1", "kind": "Service", "name": f"/path{QUERY}"}},
    "spaces": {"uri": f"http://127.0.0.1/{QUERY} x"},
    "relative": {"uri": f"path{QUERY}"},
    "beside-a-ref": {"uri": f"http://h/{QUERY}", "ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}},
    "port-beside-a-ref": {"uri": f"//u:{SECRET}@h", "ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}},
}

COMMANDS = [
    *(["status", "-o", shape] for shape in ("table", "wide", "json", "yaml", "name")),
    ["status", f"{NAMESPACE}/stuck", "-o", "yaml"],
    *(["lag", "-o", shape] for shape in ("wide", "json")),
    *(["dlq", "list", "--each", "-o", shape] for shape in ("table", "wide", "json", "yaml")),
    ["dlq", "list"],
    *(["dlq", "show", "--last", "100", "-o", shape] for shape in ("table", "json")),
    *(["traffic", "-o", shape] for shape in ("wide", "json")),
    ["doctor"],
    *(["topology", "-o", shape] for shape in ("table", "json", "mermaid", "dot", "csv", "html")),
    ["config", "show"],
]


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that has done all that a worker does with URLs."""

    installation: Installation
    broker: Installation
    worker: Worker
    subscriber: ScriptedSubscriber
    collector: Collector
    env: Mapping[str, str]

    def command(self, *arguments: str) -> str:
        """What a command prints, on both streams."""
        env = {**os.environ, **self.env, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "1000"}
        done = run([sys.executable, "-m", *arguments], env, LIMIT_S, self.installation.folder)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout + done.stderr
        return done.stdout + done.stderr


def _subscriptions(subscriber: ScriptedSubscriber) -> Iterator[Wanted]:
    def at(path: str, *answers: object) -> str:
        return subscriber.script(f"{path}{QUERY}", *answers)  # type: ignore[arg-type]

    sink, answers = at("/sink", says(200)), at("/answers", says(200))
    deaf, refusing = at("/deaf", silence()), at("/refusing", says(500))
    gone = f"http://127.0.0.1:{free_port()}/gone{QUERY}"
    for name, uri, reply, dead in (
        ("good", at("/good", says(200)), None, None),
        ("late", at("/late", says(503), says(200)), None, None),
        ("dead", at("/dead", says(400)), None, None),
        ("sunk", refusing, None, sink),
        ("sunk-twice", refusing, None, refusing),
        ("gone", gone, None, gone),
        ("replying", at("/replying", says(200, b"{}", *EVENT)), answers, None),
        ("not-replying", at("/not-replying", says(200, b"{}", *EVENT)), refusing, None),
    ):
        delivery = {**RETRY, **({"deadLetterSink": {"uri": dead}} if dead else {})}
        yield Wanted(name, uri, "unordered", delivery, reply)
    yield Wanted("deaf", deaf, "unordered", {"retry": 0, "timeout": "PT0.5S"})
    stuck = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT0.5S", "deadLetterSink": {"uri": sink}}
    ignoring = {"penstock.dev/exhausted": "ignore"}
    yield Wanted("stuck", at("/stuck", says(503)), "unordered", stuck, annotations=ignoring)


@pytest.fixture(scope="module")
def running(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With one event in a channel and one in a broker, all settled but those of `stuck`."""
    folder = tmp_path_factory.mktemp("urls")
    with Collector() as collector, ScriptedSubscriber() as subscriber:
        env = {
            "PENSTOCK_LOG_LEVEL": "debug",
            "PENSTOCK_DEBUG": "true",
            "PENSTOCK_OTLP_ENDPOINT": collector.endpoint,
        }
        installation = Installation(kafka.bootstrap, folder, env=env)
        broker = replace(installation, channel="br", is_broker=True)
        subscriptions = list(_subscriptions(subscriber))
        sink = {**RETRY, "deadLetterSink": {"uri": subscriber.url(f"/sink{QUERY}")}}
        installation.write(subscriptions, sink)
        # A reply goes back into the broker, so this subscriber replies once.
        triggers = [
            replace(subscription, name=f"t-{subscription.name}")
            for subscription in subscriptions
            if subscription.reply is None
        ]
        once = subscriber.script(f"/once{QUERY}", says(200, b"{}", *EVENT), says(200))
        broker.write([*triggers, Wanted("t-replying", once, "unordered")], sink)
        for name, destination in REFUSED.items():
            _write_refused(installation, name, destination)
        (installation.resources.folder / "broken.yaml").write_text(f"uri: http://{SECRET}@h/{QUERY}: : x\n")
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(subscriptions), LIMIT_S)
            broker.wait_triggers([*(trigger.name for trigger in triggers), "t-replying"])
            for target in (installation, broker):
                assert post(worker.port, target.resources.path, "e", b"{}").status == 202
            installation.wait_settled(
                [subscription.name for subscription in subscriptions if subscription.name != "stuck"], LIMIT_S
            )
            wait_until(
                "the reply went through the broker", lambda: len(subscriber.requests(f"/once{QUERY}")) == 2, LIMIT_S
            )
            broker.wait_settled([trigger.name for trigger in triggers if trigger.name != "t-stuck"], LIMIT_S)
            commands = {
                "PENSTOCK_KAFKA": kafka.bootstrap,
                "PENSTOCK_INSTANCE": installation.name,
                "PENSTOCK_RESOURCES": f"file:{installation.resources.folder}",
                "PENSTOCK_STATE_DIR": str(installation.state),
            }
            yield Running(installation, broker, worker, subscriber, collector, commands)
            assert worker.terminate() == 0, worker.tail()


def _write_refused(installation: Installation, name: str, destination: object) -> None:
    for field in ("subscriber", "reply"):
        spec = {
            "channel": {"kind": "KafkaChannel", "name": installation.resources.channel},
            "subscriber": {"uri": "http://127.0.0.1/"},
            field: destination,
        }
        document = {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"namespace": NAMESPACE, "name": f"refused-{name}-{field}"},
            "spec": spec,
        }
        (installation.resources.folder / f"refused-{name}-{field}.yaml").write_text(yaml.safe_dump(document))


def _is_clean(what: str, text: str | bytes) -> None:
    content = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    at = content.find(SECRET)
    assert at < 0, f"{what}: ...{content[max(0, at - 300) : at + 100]}"


def test_requests_have_it_in_their_target_and_nowhere_else(running: Running) -> None:
    """Dead letters name the URL that failed: the request to the sink does not have the word."""
    sunk = running.subscriber.requests(f"/sink{QUERY}")
    assert {request.attributes["knativeerrordest"] for request in sunk} >= {running.subscriber.url("/refusing")}
    for path in ("/good", "/late", "/dead", "/sink", "/answers", "/replying", "/once", "/stuck", "/refusing", "/deaf"):
        asked = running.subscriber.requests(f"{path}{QUERY}")
        assert asked, path
        for request in asked:
            _is_clean(path, b"\n".join(itertools.chain.from_iterable(request.pairs)) + request.body)


@pytest.mark.parametrize("page", ["", "/traffic", "/readyz", "/healthz", "?wide"])
def test_pages_of_the_port_for_events_show_no_secret(page: str, running: Running) -> None:
    for installation in (running.installation, running.broker):
        path = page if page.startswith("/") else f"/subscribers/{NAMESPACE}/{installation.resources.channel}{page}"
        status, body = get(running.worker.port, path)
        assert status == (404 if page == "?wide" else 200)
        _is_clean(path, body)
        assert b"127.0.0.1" not in body, "no URL of a subscriber at all"


def test_pages_of_the_admin_port_show_no_secret(running: Running) -> None:
    for page in ("/", "/metrics", "/readyz", "/healthz", "/debug/tasks", "/debug/stacks", "/debug/profile?seconds=0.2"):
        status, body = get(running.worker.admin_port, page)
        assert status == 200, page
        _is_clean(page, body)
    for installation in (running.installation, running.broker):
        path = f"/subscribers/{NAMESPACE}/{installation.resources.channel}?wide"
        wait_until("its error is known", partial(_names_stuck, running.worker, path), LIMIT_S)
        _is_clean(path, get(running.worker.admin_port, path)[1])


def test_pages_of_the_console_show_no_secret(running: Running) -> None:
    for installation in (running.installation, running.broker):
        path = f"/subscribers/{NAMESPACE}/{installation.resources.channel}?wide"
        wait_until("its error is known", partial(_names_stuck, running.worker, path), LIMIT_S)
    overview = get(running.worker.admin_port, "/")[1].decode()
    paths = set(re.findall(r'href="(/(?:subscription|trigger|channel|broker)/[^"]+)"', overview))
    pages = {path: get(running.worker.admin_port, path) for path in paths}
    assert {path.split("/")[1] for path in paths} == {"subscription", "trigger", "channel", "broker"}
    assert any(b"Last failed attempt" in body and b"/stuck" in body for _, body in pages.values())
    for path, (status, body) in pages.items():
        assert status == 200, path
        _is_clean(path, body)


def _names_stuck(worker: Worker, path: str) -> bool:
    return b"/stuck" in get(worker.admin_port, path)[1]


def test_files_of_the_state_have_no_secret(running: Running) -> None:
    """Statuses of objects that are served, and of those that are refused."""
    files = contents(running.installation.state)
    names = {path.name for path in files}
    assert {f"{NAMESPACE}.good.json", f"{NAMESPACE}.t-good.json"} < names
    status = running.installation.status("Subscription", "sunk")["status"]["physicalSubscription"]
    assert status["deadLetterSinkUri"] == running.subscriber.url("/sink")
    assert status["subscriberUri"] == running.subscriber.url("/refusing")
    for path, content in files.items():
        _is_clean(str(path), content)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_of_commands_has_no_secret(arguments: list[str], running: Running) -> None:
    _is_clean(" ".join(arguments), running.command("app.cli", *arguments))


def test_output_about_one_resource_has_no_secret(running: Running) -> None:
    channel = f"{NAMESPACE}/{running.installation.resources.channel}"
    topic = running.installation.resources.dlq_topic
    event = running.installation.folder / "event.json"
    event.write_text('{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}')
    for arguments in (
        ["tail", channel, "--no-follow", "--last", "100", "-o", "json"],
        ["dlq", "list", "--topic", topic, "--each", "-o", "json"],
        ["explain", f"{NAMESPACE}/t-good", "--event", str(event), "-o", "json"],
        ["seek", f"{NAMESPACE}/good", "--to", "earliest", "--dry-run"],
        ["validate", str(running.installation.resources.folder)],
        ["validate", str(running.installation.resources.folder), "-o", "json"],
        ["dlq", "redrive", "--yes", "--subscription", f"{NAMESPACE}/dead"],
    ):
        _is_clean(" ".join(arguments), running.command("app.cli", *arguments))
    _is_clean("faust agents", running.command("faust", "-A", "app", "agents"))


def test_topology_report_has_no_secret(running: Running, tmp_path: Path) -> None:
    running.command("app.cli", "topology", "--out", str(tmp_path / "report"))
    files = contents(tmp_path / "report")
    assert {"report.html", "topology.json"} <= {path.name for path in files}
    assert "/stuck#" in (tmp_path / "report" / "topology.json").read_text()
    for path, content in files.items():
        _is_clean(path.name, content)


def test_spans_have_no_secret(running: Running) -> None:
    wait_until(
        "attempts are exported",
        lambda: any(str(span.attributes.get("url.full", "")).endswith("/stuck") for span in running.collector.spans()),
        LIMIT_S,
    )
    for span in running.collector.spans():
        _is_clean(f"span {span.name}", f"{span.name} {span.attributes} {span.resource}")


def test_contract_has_it_and_no_other_topic(running: Running) -> None:
    bootstrap, name = running.installation.bootstrap, running.installation.name
    topics = [
        topic for topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics if name in topic
    ]
    assert {running.installation.resources.dlq_topic, running.broker.resources.dlq_topic} < set(topics)
    letters = 0
    for topic in topics:
        for record in reader.records(bootstrap, topic):
            parts = [record.key(), record.value(), *itertools.chain.from_iterable(record.headers() or ())]
            content = b"\n".join(part.encode() if isinstance(part, str) else part or b"" for part in parts)
            if topic != contract_topic(name):
                _is_clean(topic, content)
            letters += topic.endswith(".dlq")
    assert letters >= 4
    contract = b"".join(record.value() or b"" for record in reader.records(bootstrap, contract_topic(name)))
    assert SECRET.encode() in contract, "or this test looks for the wrong word"


def test_log_has_no_secret(running: Running) -> None:
    """The last test here: it sees what the others made the worker write."""
    log = running.worker.output() + running.worker.log.read_text(errors="replace")
    for words in ("attempt failed", "dead-lettered", "delivered", "credentials", running.subscriber.url("/stuck")):
        assert words in log
    _is_clean("the log", log)
