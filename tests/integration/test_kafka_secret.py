"""What a Kafka with TLS and SASL refuses, and what Penstock says about it: the reason, and what to correct."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError

from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.connection.python_clients import Tokens
from tables.kafka.connection.secret import read_secret
from tables.kafka.errors import KafkaUnavailable
from tables.kafka.topic_reader import TopicReader
from tests.support.certificates import Authority
from tests.support.secured_kafka import PLAIN_PASSWORD, PLAIN_USER, SecuredKafka, write_secret
from tests.support.token_server import TokenServer

pytestmark = pytest.mark.integration

LIMIT_S = 180.0
REFUSED_S = 2.0  #: a client tries until this limit


@dataclass(frozen=True, slots=True)
class Secured:
    """The Kafka, and an authority that it does not know."""

    kafka: SecuredKafka
    other: Authority

    def scram(self, **changes: str | Path) -> dict[str, str | Path]:
        """The keys of a Secret for `ann`."""
        keys: dict[str, str | Path] = {"protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "user": "ann"}
        return {**keys, "password": "secret", "ca_crt": self.kafka.authority.certificate, **changes}

    def mtls(self, authority: Authority, *, expired: bool = False) -> dict[str, str | Path]:
        """The keys of a Secret with a client certificate."""
        client = authority.sign("client", expired=expired)
        return {
            "ca_crt": self.kafka.authority.certificate,
            "user_crt": client.certificate,
            "user_key": client.key,
        }


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka], tmp_path_factory: pytest.TempPathFactory) -> Secured:
    kafka = secured_kafka()
    kafka.set_password("ann", "secret", "SCRAM-SHA-256")
    return Secured(kafka, Authority(tmp_path_factory.mktemp("secrets") / "other"))


Keys = Callable[[Secured], dict[str, str | Path]]
ACCEPTED: dict[str, tuple[str, Keys]] = {
    "SCRAM": ("sasl", lambda it: it.scram()),
    "PLAIN": ("sasl", lambda it: it.scram(sasl_mechanism="PLAIN", user=PLAIN_USER, password=PLAIN_PASSWORD)),
    "mTLS": ("mtls", lambda it: it.mtls(it.kafka.authority)),
    "no TLS": ("direct", lambda _: {"protocol": "PLAINTEXT"}),
}
REFUSED: dict[str, tuple[str, Keys, str]] = {
    "password": ("sasl", lambda it: it.scram(password="x"), "correct user and password of the Kafka secret"),
    "user": ("sasl", lambda it: it.scram(user="bob"), "correct user and password of the Kafka secret"),
    "mechanism": ("sasl", lambda it: it.scram(sasl_mechanism="PLAIN"), "correct user and password of the Kafka secret"),
    "authority": ("sasl", lambda it: it.scram(ca_crt=it.other.certificate), "ca.crt of the Kafka secret must have the"),
    "no authority": (
        "sasl",
        lambda it: it.scram(ca_crt="", tls_enabled="true"),
        "ca.crt of the Kafka secret must have",
    ),
    "no TLS": ("sasl", lambda _: {"protocol": "PLAINTEXT"}, "this listener uses TLS; set protocol to SSL or SASL_SSL"),
    "SASL without TLS": ("sasl", lambda it: it.scram(protocol="SASL_PLAINTEXT", ca_crt=""), "this listener uses TLS"),
    "TLS": ("direct", lambda _: {"protocol": "SSL"}, "the TLS handshake failed; check that this listener uses TLS"),
    "SASL": ("direct", lambda it: it.scram(protocol="SASL_PLAINTEXT", ca_crt=""), "this listener does not use SASL"),
    "no certificate": ("mtls", lambda it: it.scram(protocol="SSL"), "add user.crt and user.key to the Kafka secret"),
    "other certificate": ("mtls", lambda it: it.mtls(it.other), "the brokers must trust the authority that signed it"),
    "expired": ("mtls", lambda it: it.mtls(it.kafka.authority, expired=True), "it must not have expired"),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_secret_that_fits_its_listener_is_accepted(secured: Secured, tmp_path: Path, row: str) -> None:
    listener, keys = ACCEPTED[row]
    client = {"bootstrap.servers": getattr(secured.kafka, listener), **_read(tmp_path, keys(secured))}
    assert KafkaAdmin(client, LIMIT_S).cluster().brokers == 1


@pytest.mark.parametrize("row", REFUSED)
def test_secret_that_does_not_fit_is_refused_with_its_cure(secured: Secured, tmp_path: Path, row: str) -> None:
    listener, keys, cure = REFUSED[row]
    client = {"bootstrap.servers": getattr(secured.kafka, listener), **_read(tmp_path, keys(secured))}
    with pytest.raises(KafkaUnavailable) as error:
        KafkaAdmin(client, REFUSED_S).cluster()
    assert cure in str(error.value)
    assert "penstock kafka up" not in str(error.value)


def test_reader_says_it_too(secured: Secured, tmp_path: Path) -> None:
    client = {"bootstrap.servers": secured.kafka.sasl, **_read(tmp_path, secured.scram(password="x"))}
    with pytest.raises(KafkaUnavailable, match="correct user and password of the Kafka secret"):
        TopicReader("topic", client, REFUSED_S)


@pytest.mark.parametrize(
    ("subject", "expired", "cure"),
    [
        ("DNS:elsewhere", False, "the broker's certificate is not for 127.0.0.1"),
        ("IP:127.0.0.1", True, "the broker's certificate has expired"),
    ],
)
def test_broker_with_a_wrong_certificate(tmp_path: Path, subject: str, expired: bool, cure: str) -> None:
    with SecuredKafka(tmp_path / "kafka", lambda authority: authority.sign("b", subject, expired=expired)) as kafka:
        client = {"bootstrap.servers": kafka.sasl, **_read(tmp_path, {"ca_crt": kafka.authority.certificate})}
        with pytest.raises(KafkaUnavailable, match=cure):
            KafkaAdmin(client, REFUSED_S).cluster()


@pytest.mark.parametrize(
    ("secret", "path", "why"), [("wrong", "", "the answer was 401"), ("right", "/nowhere", "the answer has no token")]
)
def test_refused_token_is_an_error_without_credentials(secret: str, path: str, why: str) -> None:
    """An error that shows neither what was sent nor what was answered, because event loops log errors whole."""
    with TokenServer("client", "right") as server:
        url, oauth = server.endpoint + path, "sasl.oauthbearer."
        settings = {f"{oauth}token.endpoint.url": url, f"{oauth}client.id": "client", f"{oauth}client.secret": secret}
        with pytest.raises(KafkaConnectionError) as error:
            asyncio.run(Tokens(settings).token())
    assert why in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert "Basic" not in repr(error.value)


def _read(folder: Path, keys: dict[str, str | Path]) -> dict[str, str]:
    return read_secret(write_secret(folder / "secret", **keys))
