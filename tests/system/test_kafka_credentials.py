"""A worker whose Kafka credentials change under load: nothing is lost, delivered twice or out of order, and no
credential is shown."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tables.traffic_windows.faust_table import TrafficConfig
from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, wait_until
from tests.support.resources import Wanted
from tests.support.scripted_server import slowly
from tests.support.secured_kafka import MountedSecret, SecuredKafka
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("started_from_scratch")]  # the command line is executed again

LIMIT_S = 180.0
CANARIES = ("canary-one-51c", "canary-two-8e0", "canary-three-2b7")
ANSWER_S = 0.02
CHANGED = "the worker starts again, to use changed files"


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka]) -> SecuredKafka:
    return secured_kafka()


@dataclass(slots=True)
class Load:
    """Sends events to a channel and to a broker, one after the other, until it is stopped."""

    worker: Worker
    paths: dict[str, str]  #: name of the Subscription or Trigger -> path
    accepted: dict[str, list[str]] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Until the end of the block."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._send, args=(name, stop)) for name in self.paths]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(LIMIT_S)

    def _send(self, name: str, stop: threading.Event) -> None:
        accepted = self.accepted[name] = []
        number = 0
        while not stop.wait(2 * ANSWER_S):
            number += 1
            status = post(self.worker.port, self.paths[name], f"{name}-{number}", b"x").status
            if status == 202:
                accepted.append(f"{name}-{number}")
            else:
                self.refused.append(status)

    def more(self, count: int = 20) -> None:
        """Wait until more events are accepted of each."""
        targets = {name: len(self.accepted.get(name, ())) + count for name in self.paths}
        what = "more events are accepted"
        wait_until(what, lambda: all(len(self.accepted.get(name, ())) > targets[name] for name in targets), LIMIT_S)


@dataclass(slots=True)
class World:
    """A worker with a channel and a broker, whose subscribers take their time."""

    secret: MountedSecret
    worker: Worker
    load: Load
    installations: dict[str, Installation]
    subscriber: ScriptedSubscriber

    def log(self) -> str:
        return self.worker.log.read_text()

    def wait_changed(self, times: int = 1) -> None:
        """Until the worker has taken the credentials, and stores events with them."""
        wait_until("the credentials are taken", lambda: self.log().count(CHANGED) == times, LIMIT_S)
        # What changes before the next program has read its files belongs to that one.
        wait_until("it has started again", lambda: self.log().count('"worker started"') == 1 + times, LIMIT_S)
        self.load.more()

    def wait_traffic(self) -> None:
        """Until Faust's own consumer and producer have made windows of what comes in now."""
        broker = self.installations["trigger"]
        topic = TrafficConfig(broker.name).changelog
        before = reader.ends(broker.bootstrap, topic)
        wait_until("there are more windows", lambda: reader.ends(broker.bootstrap, topic) != before, LIMIT_S)

    def check(self) -> None:
        """Every event that was accepted is delivered, once and in order; and no other was refused."""
        assert self.load.refused == []
        for name, installation in self.installations.items():
            installation.wait_settled([name], LIMIT_S)
            ids = [request.attributes["id"] for request in self.subscriber.requests(f"/{name}")]
            assert ids == self.load.accepted[name]
        assert self.worker.process.poll() is None


@contextmanager
def _world(kafka: SecuredKafka, folder: Path, listener: str, first: Path, **settings: str) -> Iterator[World]:
    (folder / "secret").mkdir()
    secret = MountedSecret(folder / "secret")
    secret.mount(first)
    env = {
        "PENSTOCK_KAFKA": listener,
        "PENSTOCK_KAFKA_SECRET": str(secret.folder),
        "PENSTOCK_PRODUCE_TIMEOUT_S": "3",
        **settings,
    }
    broker = Installation(kafka.direct, folder, env=env, is_broker=True)
    channel = replace(broker, is_broker=False, channel="plain")
    installations = {"trigger": broker, "subscription": channel}
    with ExitStack() as stack:
        subscriber = stack.enter_context(ScriptedSubscriber())
        for name, installation in installations.items():
            installation.write([Wanted(name, subscriber.script(f"/{name}", slowly(says(200), ANSWER_S)))])
        worker = stack.enter_context(broker.worker())
        worker.wait_ready()
        broker.wait_triggers(["trigger"], LIMIT_S)
        channel.wait_subscribers(worker, 1, LIMIT_S)
        load = Load(worker, {name: installation.resources.path for name, installation in installations.items()})
        yield World(secret, worker, load, installations, subscriber)
        assert worker.terminate() == 0, worker.tail()


def _check_hidden(folder: Path, *hidden: str) -> None:
    looked = {path: text for path, text in contents(folder).items() if "secret" not in str(path.relative_to(folder))}
    assert any(path.suffix == ".log" for path in looked)
    assert [path for path, text in looked.items() if any(secret.encode() in text for secret in hidden)] == []


def test_password_that_changes_loses_and_repeats_nothing(secured: SecuredKafka, tmp_path: Path) -> None:
    """First the folder is gone for a while. Then the password changes in the folder and later in Kafka; then the other
    way round, to another user."""
    first, second, third = CANARIES
    secured.set_password("ann", first)

    def keys(number: int, user: str, password: str) -> Path:
        return secured.sasl_secret(tmp_path / f"secret-{number}", "SCRAM-SHA-512", user, password)

    with _world(secured, tmp_path, secured.sasl, keys(1, "ann", first)) as world:
        with world.load.running():
            world.load.more()
            away = world.secret.folder.rename(tmp_path / "secret-away")
            wait_until("the worker says what is missing", lambda: "There is no folder" in world.log(), LIMIT_S)
            world.load.more()
            away.rename(world.secret.folder)
            wait_until("all is well", lambda: "the files are as they were before" in world.log(), LIMIT_S)
            world.secret.mount(keys(2, "ann", second))
            wait_until("the worker says that Kafka refuses them", lambda: "are not used yet" in world.log(), LIMIT_S)
            assert str(world.secret.folder) in world.log()
            assert "correct user and password of the Kafka secret" in world.log()
            assert CHANGED not in world.log()
            secured.set_password("ann", second)
            world.wait_changed()
            secured.set_password("bob", third)
            world.secret.mount(keys(3, "bob", third))
            world.wait_changed(2)
            secured.remove_user("ann")
            world.load.more()
            world.wait_traffic()
        world.check()
    _check_hidden(tmp_path, *CANARIES)


def test_certificate_that_changes_loses_and_repeats_nothing(secured: SecuredKafka, tmp_path: Path) -> None:
    """One that does not fit its key is not used, and then one that does is."""
    first, second = (secured.mtls_secret(tmp_path / f"secret-{name}", name) for name in ("one", "two"))
    wrong = shutil.copytree(second, tmp_path / "secret-wrong")
    shutil.copy(first / "user.key", wrong)
    with _world(secured, tmp_path, secured.mtls, first) as world:
        with world.load.running():
            world.load.more()
            world.secret.mount(wrong)
            problem = "user.crt and user.key are not a certificate and its private key"
            wait_until("the worker says what is wrong", lambda: problem in world.log(), LIMIT_S)
            world.load.more()
            assert CHANGED not in world.log()
            world.secret.mount(second)
            world.wait_changed()
        world.check()
    hidden = [line for path in (first, second) for line in (path / "user.key").read_text().splitlines()[1:-1]]
    _check_hidden(tmp_path, *hidden)
