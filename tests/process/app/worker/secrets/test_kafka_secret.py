"""The folder of a Kafka secret that changes, as far as no Kafka is needed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.worker.secrets.file_watch import FileWatch
from app.worker.secrets.kafka_secret import KafkaSecret
from knative.errors import UsageError
from tables.kafka.connection.live_settings import present
from tests.support.secured_kafka import write_secret

KEYS = {"protocol": "SASL_PLAINTEXT", "user": "ann", "password": "canary"}


def _secret(folder: Path) -> KafkaSecret:
    write_secret(folder, **KEYS)
    return KafkaSecret(folder, {"bootstrap.servers": "127.0.0.1:1"}, {"topic": ("READ",)})


def test_the_folder_is_used_before_a_kafka_answers(tmp_path: Path) -> None:
    secret = _secret(tmp_path / "secret")
    secret.use(secret.read())
    found = (secret.kafka["bootstrap.servers"], secret.kafka["sasl.username"], secret.kafka["sasl.password"])
    assert found == ("127.0.0.1:1", "ann", "canary")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"password": ""}, "PLAIN needs password"),
        ({"user": " ", "password": "canary-two"}, r"the Kafka client rejects them \(_INVALID_ARG\)"),
    ],
)
def test_what_cannot_be_used_changes_nothing(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    folder = tmp_path / "secret"
    secret = _secret(folder)
    watch = FileWatch("PENSTOCK_KAFKA_SECRET", secret.paths, secret.read, secret.use)
    used = present(secret.kafka)
    write_secret(folder, **changes)
    with pytest.raises(UsageError, match=problem) as found:
        secret.read()
    assert str(folder) in str(found.value)
    assert "canary" not in str(found.value)
    asyncio.run(watch.look())
    assert present(secret.kafka) is used
    write_secret(folder, **KEYS)
    asyncio.run(watch.look())
    assert present(secret.kafka) is used, "the files are others, and say what the former ones said"
