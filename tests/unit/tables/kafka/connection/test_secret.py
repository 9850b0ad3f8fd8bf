"""The keys of a Kafka secret, as settings of a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from knative.errors import UsageError
from tables.kafka.connection.secret import client_settings, read_secret

FOLDER = Path("/secret")
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "user": "ann", "password": "pass"}
OAUTH = {f"sasl.oauthbearer.{key}": key for key in ("token.endpoint.url", "client.id", "client.secret")}
_CA, _CERTIFICATE, _KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
_USER = {"sasl.username": "ann", "sasl.password": "pass"}


@pytest.mark.parametrize(
    ("secret", "settings"),
    [
        ({"protocol": "PLAINTEXT"}, {"security.protocol": "PLAINTEXT"}),
        ({"protocol": " ssl "}, {"security.protocol": "SSL"}),
        ({"protocol": "SSL", "ca.crt": "x"}, {"security.protocol": "SSL", _CA: "/secret/ca.crt"}),
        ({"ca.crt": "x"}, {"security.protocol": "SSL", _CA: "/secret/ca.crt"}),
        ({"tls.enabled": "true"}, {"security.protocol": "SSL"}),
        ({"tls.enabled": "false", "user": "ann", "password": "pass"},
         {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **_USER}),
        ({"username": "ann", "password": "pass", "sasltype": "SCRAM-SHA-256", "ca.crt": "x"},
         {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", _CA: "/secret/ca.crt", **_USER}),
        ({"saslType": "PLAIN", "username": "ann", "password": "pass", "tls.enabled": "true"},
         {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **_USER}),
        ({**SCRAM, "protocol": "SASL_PLAINTEXT", "tls.enabled": "false"},
         {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", **_USER}),
        ({"protocol": "SSL", "user.crt": "x", "user.key": "y"},
         {"security.protocol": "SSL", _CERTIFICATE: "/secret/user.crt", _KEY: "/secret/user.key"}),
        ({"protocol": "SASL_SSL", "sasl.mechanism": "oauthbearer", **OAUTH},
         {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
          **OAUTH}),
    ],
)  # fmt: skip
def test_keys_become_settings_of_a_client(secret: dict[str, str], settings: dict[str, str]) -> None:
    assert client_settings(secret, FOLDER) == (settings, [])


@pytest.mark.parametrize(
    ("secret", "problems"),
    [
        ({"protocol": "TLS"}, ["protocol is not PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"]),
        ({"protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
         ["sasl.mechanism is not PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"]),
        ({"protocol": "PLAINTEXT", "ca.crt": "x"},
         ["protocol is PLAINTEXT, which has no TLS, but the secret has tls.enabled or a certificate"]),
        ({"protocol": "SASL_SSL"}, ["PLAIN needs user", "PLAIN needs password"]),
        ({"protocol": "SSL", "user.crt": "x"},
         ["user.crt and user.key belong together, but the secret has only one of the two"]),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.id": "x"},
         ["OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER needs sasl.oauthbearer.client.secret"]),
    ],
)  # fmt: skip
def test_invalid_keys_are_named(secret: dict[str, str], problems: list[str]) -> None:
    assert client_settings(secret, FOLDER)[1] == problems


def test_password_is_not_shown_with_the_settings() -> None:
    settings, _ = client_settings(SCRAM | OAUTH, FOLDER)
    assert settings["sasl.password"] == "pass"
    assert "pass" not in repr(settings).replace("password", "")


def test_folder_is_read(tmp_path: Path) -> None:
    for name, text in {**SCRAM, "other.p12": "\udcff"}.items():
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape") + b"\n")
    settings = read_secret(tmp_path)
    assert (settings["sasl.username"], settings["sasl.password"]) == ("ann", "pass")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "it has no key of a Kafka secret"),
        ({"p12": b"x"}, "it has no key of a Kafka secret"),
        ({"password": b"\xff"}, r"password cannot be read \(it is not UTF-8\)"),
        ({"ca.crt": b"x"}, "ca.crt does not contain certificates in the PEM format"),
        ({"user.crt": b"x", "user.key": b"y"}, "user.crt and user.key are not a certificate and its private key"),
        ({"protocol": b"SASL_SSL", "user": b"ann"}, "PLAIN needs password"),
    ],
)
def test_folder_that_is_not_valid(tmp_path: Path, files: dict[str, bytes], problem: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=problem) as error:
        read_secret(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no folder .*/absent, which PENSTOCK_KAFKA_SECRET names"):
        read_secret(tmp_path / "absent")
