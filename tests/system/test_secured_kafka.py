"""A worker on a Kafka with TLS and SASL: every client of it connects, and no credential is shown anywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tables.traffic_windows.faust_table import TrafficConfig
from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, wait_until
from tests.support.resources import Wanted
from tests.support.secured_kafka import PLAIN_PASSWORD, PLAIN_USER, SecuredKafka, write_secret
from tests.support.subscriber import ScriptedSubscriber, says
from tests.support.token_server import TokenServer
from tests.system.sending import post
from tests.system.test_cli_beside_worker import penstock, run

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("started_from_scratch")]  # the tests read command lines

LIMIT_S = 180.0
EVENTS = 30
CANARY = "canary-7f3d1c"
CLIENT, SECRET = "oauth-client", f"{CANARY}-oauth"


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka]) -> SecuredKafka:
    kafka = secured_kafka()
    kafka.set_password("ann", CANARY)
    return kafka


@dataclass(frozen=True, slots=True)
class Way:
    """How to connect: the listener, and the folder of the Secret."""

    listener: str
    secret: Path
    hidden: str


def _scram(kafka: SecuredKafka, folder: Path, _: ExitStack) -> Way:
    return Way(kafka.sasl, kafka.sasl_secret(folder, "SCRAM-SHA-512", "ann", f"{CANARY}\n"), CANARY)


def _plain_by_older_names(kafka: SecuredKafka, folder: Path, _: ExitStack) -> Way:
    keys = {"saslType": "PLAIN", "username": PLAIN_USER, "password": PLAIN_PASSWORD, "tls_enabled": "true"}
    return Way(kafka.sasl, write_secret(folder, **keys, ca_crt=kafka.authority.certificate), PLAIN_PASSWORD)


def _mtls(kafka: SecuredKafka, folder: Path, _: ExitStack) -> Way:
    secret = kafka.mtls_secret(folder)
    return Way(kafka.mtls, secret, (secret / "user.key").read_text().splitlines()[1])


def _oauth(kafka: SecuredKafka, folder: Path, stack: ExitStack) -> Way:
    server = stack.enter_context(TokenServer(CLIENT, SECRET))
    prefix = "sasl_oauthbearer_"
    keys = {
        f"{prefix}token_endpoint_url": server.endpoint,
        f"{prefix}client_id": CLIENT,
        f"{prefix}client_secret": SECRET,
    }
    keys |= {"protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", f"{prefix}scope": "kafka"}
    return Way(kafka.sasl, write_secret(folder, **keys, ca_crt=kafka.authority.certificate), SECRET)


@pytest.mark.parametrize("connect", [_scram, _plain_by_older_names, _mtls, _oauth])
def test_events_pass_and_credentials_stay_hidden(
    secured: SecuredKafka, tmp_path: Path, connect: Callable[[SecuredKafka, Path, ExitStack], Way]
) -> None:
    with ExitStack() as stack:
        way = connect(secured, tmp_path / "secret", stack)
        env = {"PENSTOCK_KAFKA": way.listener, "PENSTOCK_KAFKA_SECRET": str(way.secret)}
        broker = Installation(secured.direct, tmp_path, env=env, is_broker=True, partitions=2)
        subscriber = stack.enter_context(ScriptedSubscriber())
        broker.write(Wanted(name, subscriber.script(f"/{name}", says(200))) for name in ("one", "two"))
        worker = stack.enter_context(broker.worker())
        worker.wait_ready()
        broker.wait_triggers(["one", "two"], LIMIT_S)
        for number in range(EVENTS):
            assert post(worker.port, broker.resources.path, f"e{number}", b"x").status == 202
        broker.wait_settled(["one", "two"], LIMIT_S)
        expected = sorted(f"e{number}" for number in range(EVENTS))
        for name in ("one", "two"):
            assert sorted(request.attributes["id"] for request in subscriber.requests(f"/{name}")) == expected
        assert {row["events"] for row in penstock(broker, "lag")[0]} == {0}
        _wait_for_traffic(broker)
        output = [line for command in ("doctor", "config show") for line in run(broker, "app.cli", *command.split())]
        output += [Path(f"/proc/{worker.process.pid}/cmdline").read_text()]
        assert worker.terminate() == 0, worker.tail()
        _check_hidden(way.hidden, "\n".join(output), broker, secured)


def _wait_for_traffic(broker: Installation) -> None:
    """Until Faust's own consumer and producer have made windows of it."""
    topic = TrafficConfig(broker.name).changelog
    wait_until("there are windows", lambda: any(True for _ in reader.records(broker.bootstrap, topic)), LIMIT_S)


def _check_hidden(hidden: str, output: str, broker: Installation, kafka: SecuredKafka) -> None:
    """Not in output, logs, statuses or records. Not vacuous: the folder of the Secret is left out by name only."""
    assert hidden not in output
    looked = {path: content for path, content in contents(broker.folder).items() if "secret" not in path.parts}
    assert any(path.suffix == ".log" for path in looked)
    assert [str(path) for path, content in looked.items() if hidden.encode() in content] == []
    for topic in (name for name in kafka.topics() if broker.name in name):
        for record in reader.records(kafka.direct, topic):
            parts = (record.key(), record.value(), repr(record.headers()).encode())
            assert not any(hidden.encode() in part for part in parts if part), topic


def test_worker_with_a_wrong_password_says_what_to_correct(secured: SecuredKafka, tmp_path: Path) -> None:
    secret = secured.sasl_secret(tmp_path / "secret", "SCRAM-SHA-512", "ann", "not this")
    env = {"PENSTOCK_KAFKA_SECRET": str(secret), "PENSTOCK_KAFKA_WAIT_S": "1"}
    worker = Worker("all", secured.sasl, tmp_path, env={**env, "PENSTOCK_STATE_DIR": str(tmp_path / "state")})
    with worker:
        assert worker.wait(LIMIT_S) == 3, worker.tail()
        assert "correct user and password of the Kafka secret" in worker.tail()
        assert "not this" not in worker.tail()


def test_topic_that_may_not_be_written_any_more(secured: SecuredKafka, tmp_path: Path) -> None:
    """Refused while the ACL is there, and accepted again after it, by the same worker."""
    secret = secured.sasl_secret(tmp_path / "secret", "SCRAM-SHA-512", "ann", CANARY)
    env = {"PENSTOCK_KAFKA": secured.sasl, "PENSTOCK_KAFKA_SECRET": str(secret)}
    installation = Installation(secured.direct, tmp_path, env=env)
    installation.write([])
    with installation.worker() as worker:
        worker.wait_ready()
        path = installation.resources.path

        def status(event_id: str) -> int:
            return post(worker.port, path, event_id, b"x").status

        wait_until("the channel takes events", lambda: status("before") == 202, LIMIT_S)
        rule = secured.deny("ann", installation.resources.topic)
        wait_until("they are refused", lambda: status("denied") not in (202, 404), LIMIT_S)
        before = sum(installation.ends().values())
        assert status("denied") // 100 == 5
        assert sum(installation.ends().values()) == before
        secured.allow(rule)
        wait_until("they are taken again", lambda: status("after") == 202, LIMIT_S)
        assert worker.terminate() == 0, worker.tail()
