"""Brokers with a Secret of their own on a Kafka with users and ACLs: who writes and reads, what cuts off whom, and what
happens to events when credentials or the reference change. No credential is shown anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.scripted_server import slowly
from tests.support.secured_kafka import MountedSecret, SecuredKafka
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post
from tests.system.test_cli_beside_worker import run
from tests.system.test_kafka_credentials import ANSWER_S, CHANGED, Load

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("started_from_scratch")]  # the command line is executed again

LIMIT_S = 180.0
MAIN, SHOP, SHOP_TOO, WRONG = "canary-main-4b1", "canary-shop-9e2", "canary-next-c07", "canary-wrong-d55"
OWN, PLAIN = "own", "plain"
_EVENTS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
#: What the controller does with the topics of a Broker, and READ for the start offsets that it commits.
_CONTROLLER = (
    *(AclOperation.CREATE, AclOperation.DELETE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.ALTER),
    *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
)


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka]) -> SecuredKafka:
    kafka = secured_kafka()
    kafka.set_password("main", MAIN)
    return kafka


@dataclass(slots=True)
class World:
    """A worker with two Brokers of one Trigger each: one has a Secret of its own, the other has not."""

    kafka: SecuredKafka
    folder: Path
    worker: Worker
    brokers: dict[str, Installation]
    subscriber: ScriptedSubscriber
    load: Load

    def post(self, name: str, event_id: str) -> tuple[int, str]:
        """Status and body."""
        answer = post(self.worker.port, self.brokers[name].resources.path, event_id, b"x")
        return answer.status, answer.body.decode()

    def mount(self, user: str, password: str, name: str = "kafka") -> MountedSecret:
        """The first time that this Secret is there."""
        (self.folder / "secrets" / NAMESPACE / name).mkdir(parents=True)
        secret = MountedSecret(self.folder / "secrets" / NAMESPACE / name)
        secret.mount(self.keys(user, password))
        return secret

    def keys(self, user: str, password: str) -> Path:
        """Of a Secret."""
        folder = self.folder / f"secret-{user}-{password}"
        return self.kafka.sasl_secret(folder, "SCRAM-SHA-512", user, password)

    def condition(self, kind: str, name: str, type_: str) -> tuple[str, str, str]:
        """Status, reason and message."""
        conditions = self.brokers[OWN].status(kind, name).get("status", {}).get("conditions", ())
        condition: dict[str, str] = next((raw for raw in conditions if raw["type"] == type_), {})
        return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")

    def wait_conditions(self, reason: str, fix: str) -> None:
        """Until Broker and Trigger say why they are not served, and how to mend it."""
        broker = self.brokers[OWN].resources.channel
        for kind, name, type_ in (("Broker", broker, "KafkaSecretReady"), ("Trigger", OWN, "Subscribed")):

            def says_so(place: tuple[str, str, str] = (kind, name, type_)) -> bool:
                status, why, message = self.condition(*place)
                return (status, why) == ("False", reason) and fix in message

            wait_until(f"{kind} {name} reports {reason}", says_so, LIMIT_S)

    def wait_works(self, name: str) -> None:
        """Until events go through."""
        wait_until(f"{name} takes events", lambda: self.post(name, "works")[0] == 202, LIMIT_S)
        self.brokers[name].wait_settled([name], LIMIT_S)

    def check(self, *, refused: bool = False) -> None:
        """Every event that the load sent and that was accepted is delivered, once and in order; no other was refused
        unless that is allowed."""
        assert refused or self.load.refused == []
        for name, broker in self.brokers.items():
            broker.wait_settled([name], LIMIT_S)
            ids = [request.attributes["id"] for request in self.subscriber.requests(f"/{name}")]
            assert [id_ for id_ in ids if id_.startswith(f"{name}-")] == self.load.accepted.get(name, [])
        assert self.worker.process.poll() is None

    def check_hidden(self, *hidden: str) -> None:
        """Not in logs, statuses, output or records."""
        broker = self.brokers[OWN]
        output = "\n".join(line for what in ("config show", "status") for line in run(broker, "app.cli", *what.split()))
        looked = {path: content for path, content in contents(self.folder).items() if "secret" not in str(path)}
        assert any(path.suffix == ".log" for path in looked)
        texts = [output.encode(), *looked.values()]
        for topic in (topic for topic in self.kafka.topics() if broker.name in topic):
            for record in reader.records(self.kafka.direct, topic):
                texts += [part for part in (record.key(), record.value(), repr(record.headers()).encode()) if part]
        assert not any(secret.encode() in text for secret in hidden for text in texts)
        assert f"{NAMESPACE}/kafka".encode() in b"".join(texts), "the reference is not a secret"


@contextmanager
def _world(kafka: SecuredKafka, tmp_path: Path, secret: str = "kafka") -> Iterator[World]:
    main = kafka.sasl_secret(tmp_path / "secret-main", "SCRAM-SHA-512", "main", MAIN)
    (tmp_path / "secrets").mkdir()
    env = {
        "PENSTOCK_KAFKA": kafka.sasl,
        "PENSTOCK_KAFKA_SECRET": str(main),
        "PENSTOCK_KAFKA_SECRETS": str(tmp_path / "secrets"),
        "PENSTOCK_PRODUCE_TIMEOUT_S": "3",
        "PENSTOCK_TRAFFIC": "false",
    }
    plain = Installation(kafka.direct, tmp_path, env=env, is_broker=True, channel=PLAIN)
    own = replace(plain, channel=OWN, secret=secret)
    brokers = {PLAIN: plain, OWN: own}
    with ExitStack() as stack:
        subscriber = stack.enter_context(ScriptedSubscriber())
        for name, broker in brokers.items():
            broker.write([Wanted(name, subscriber.script(f"/{name}", slowly(says(200), ANSWER_S)))])
        worker = stack.enter_context(plain.worker())
        worker.wait_ready()
        plain.wait_triggers([PLAIN], LIMIT_S)
        load = Load(worker, {name: broker.resources.path for name, broker in brokers.items()})
        yield World(kafka, tmp_path, worker, brokers, subscriber, load)
        assert worker.terminate() == 0, worker.tail()


def test_only_its_own_user_writes_and_reads_a_brokers_events(secured: SecuredKafka, tmp_path: Path) -> None:
    """First there is no folder, then one with a wrong password, then the right one. The other Broker goes on all the
    time."""
    secured.set_password("shop", SHOP)
    with _world(secured, tmp_path) as world:
        own = world.brokers[OWN]
        resources = own.resources
        wait_until("the Broker is published", lambda: world.post(OWN, "none")[0] == 503, LIMIT_S)
        fix = f"PENSTOCK_KAFKA_SECRETS has no folder {NAMESPACE}/kafka; mount the Secret there"
        wait_until("the answer says why", lambda: "(KafkaSecretNotFound)" in world.post(OWN, "none")[1], LIMIT_S)
        assert f"{NAMESPACE}/kafka" not in world.post(OWN, "none")[1], "the name of the Secret is not for senders"
        world.wait_conditions("KafkaSecretNotFound", fix)
        world.wait_works(PLAIN)

        for topic, rights in ((resources.topic, _EVENTS), (resources.dlq_topic, _EVENTS[1:])):
            secured.grant("shop", ResourceType.TOPIC, topic, rights)
            secured.grant("main", ResourceType.TOPIC, topic, _CONTROLLER)
        secured.grant("shop", ResourceType.GROUP, f"{own.name}.fanout.{resources.topic}", [AclOperation.READ])
        secret = world.mount("shop", WRONG)
        fix = "correct user and password of the Kafka secret"
        wait_until("the answer says why", lambda: "(KafkaSecretInvalid)" in world.post(OWN, "wrong")[1], LIMIT_S)
        world.wait_conditions("KafkaSecretInvalid", fix)
        world.wait_works(PLAIN)

        secured.set_password("stranger", SHOP_TOO)
        secret.mount(world.keys("stranger", SHOP_TOO))
        fix = "the event was not stored: refused"
        wait_until("Kafka refuses the events", lambda: fix in world.post(OWN, "refused")[1], LIMIT_S)
        world.wait_works(PLAIN)

        secret.mount(world.keys("shop", SHOP))
        world.wait_works(OWN)
        own.wait_triggers([OWN], LIMIT_S)
        assert world.condition("Broker", resources.channel, "KafkaSecretReady")[0] == "True"
        ids = [request.attributes["id"] for request in world.subscriber.requests(f"/{OWN}")]
        assert ids == ["works"]

        rejecting = Wanted("rejecting", world.subscriber.script("/rejecting", says(400)), delivery={"retry": 0})
        resources.write(rejecting)
        own.wait_triggers(["rejecting"], LIMIT_S)
        assert world.post(OWN, "dead")[0] == 202
        own.wait_settled([OWN, "rejecting"], LIMIT_S)
        assert len(list(reader.records(secured.direct, resources.dlq_topic))) == 1
        world.wait_works(PLAIN)
        world.check_hidden(MAIN, SHOP, WRONG)


def test_password_of_a_brokers_secret_changes_under_load(secured: SecuredKafka, tmp_path: Path) -> None:
    """First in the folder and then in Kafka. Nothing is lost, delivered twice or out of order, in either Broker."""
    secured.set_password("till", SHOP)
    with _world(secured, tmp_path) as world:
        secret = world.mount("till", SHOP)
        world.wait_works(OWN)
        with world.load.running():
            world.load.more()
            secret.mount(world.keys("till", SHOP_TOO))
            log = world.worker.log
            wait_until("Kafka refuses them", lambda: "changed files are not used" in log.read_text(), LIMIT_S)
            world.load.more()
            secured.set_password("till", SHOP_TOO)
            wait_until("they are taken", lambda: CHANGED in log.read_text(), LIMIT_S)
            world.load.more()
        lines = [json.loads(line) for line in log.read_text().splitlines() if CHANGED in line]
        assert [line["changes"] for line in lines] == [[f"{NAMESPACE}/kafka/password"]]
        world.check()
        world.check_hidden(MAIN, SHOP, SHOP_TOO)


def test_broker_gets_another_secret_under_load(secured: SecuredKafka, tmp_path: Path) -> None:
    """One that is not there is not taken. Then one of another user, and then that of the installation. With two
    Triggers, which change one after the other."""
    secured.set_password("desk", SHOP)
    secured.set_password("desk-two", SHOP_TOO)
    with _world(secured, tmp_path) as world:
        world.mount("desk", SHOP)
        world.wait_works(OWN)
        own = world.brokers[OWN]
        own.resources.write(Wanted("beside", world.subscriber.script("/beside", slowly(says(200), ANSWER_S))))
        own.wait_triggers(["beside"], LIMIT_S)
        with world.load.running():
            world.load.more()
            replace(own, secret="second").resources.write_channel(1)
            broker, missing = own.resources.channel, ("False", "KafkaSecretNotFound")
            wait_until(
                "the Broker says that it keeps the former",
                lambda: world.condition("Broker", broker, "KafkaSecretReady")[:2] == missing,
                LIMIT_S,
            )
            message = world.condition("Broker", broker, "KafkaSecretReady")[2]
            assert f"the Secret {NAMESPACE}/kafka is used until then" in message
            world.load.more()
            for user in ("desk", "desk-two", "main"):
                rights = {*_EVENTS, *_CONTROLLER} if user == "main" else set(_EVENTS)
                secured.grant(user, ResourceType.TOPIC, own.resources.topic, rights)
            world.mount("desk-two", SHOP_TOO, "second")
            wait_until(
                "the other Secret is used",
                lambda: world.condition("Broker", broker, "KafkaSecretReady")[0] == "True",
                LIMIT_S,
            )
            own.wait_triggers([OWN, "beside"], LIMIT_S)
            secured.deny("desk", own.resources.topic)
            before = len(world.load.accepted[OWN])
            wait_until("events are accepted", lambda: len(world.load.accepted[OWN]) > before + 20, LIMIT_S)
            replace(own, secret="").resources.write_channel(1)
            wait_until(
                "no Secret is used",
                lambda: world.condition("Broker", broker, "KafkaSecretReady")[0] == "",
                LIMIT_S,
            )
            before = len(world.load.accepted[OWN])
            wait_until("events are accepted", lambda: len(world.load.accepted[OWN]) > before + 20, LIMIT_S)
        world.check(refused=True)
        own.wait_settled(["beside"], LIMIT_S)
        ids = [request.attributes["id"] for request in world.subscriber.requests("/beside")]
        assert ids == world.load.accepted[OWN]
