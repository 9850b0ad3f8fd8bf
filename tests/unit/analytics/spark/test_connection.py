"""How Spark's Kafka client connects, from librdkafka's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analytics.spark.kafka_source import connection
from knative.errors import UsageError

_SECURITY = "org.apache.kafka.common.security"
_AT: dict[str, Any] = {"bootstrap.servers": "a:1,b:2"}
_USER = {"sasl.username": "ann", "sasl.password": 'p"a\\ss;'}
_QUOTED = 'username="ann" password="p\\"a\\\\ss;";'


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"security.protocol": "PLAINTEXT"}, {}),
        ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **_USER},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {_QUOTED}",
            },
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", **_USER},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required {_QUOTED}",
            },
        ),
    ],
)
def test_settings_of_librdkafka_become_those_of_spark(settings: dict[str, str], options: dict[str, str]) -> None:
    expected = {"bootstrap.servers": "a:1,b:2", **options}
    assert connection(_AT | settings) == {f"kafka.{name}": value for name, value in expected.items()}


def test_mechanism_that_spark_cannot_use() -> None:
    with pytest.raises(UsageError, match="OAUTHBEARER"):
        connection(_AT | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})


def test_certificates_are_passed_on(tmp_path: Path) -> None:
    files = {"ssl.ca.location": "ca.crt", "ssl.certificate.location": "user.crt", "ssl.key.location": "user.key"}
    for name in files.values():
        (tmp_path / name).write_text(f"the {name}")
    options = connection(
        _AT | {"security.protocol": "SSL"} | {setting: str(tmp_path / name) for setting, name in files.items()}
    )
    assert {name.removeprefix("kafka.ssl."): value for name, value in options.items() if ".ssl." in name} == {
        "truststore.type": "PEM",
        "truststore.certificates": "the ca.crt",
        "keystore.type": "PEM",
        "keystore.certificate.chain": "the user.crt",
        "keystore.key": "the user.key",
    }
