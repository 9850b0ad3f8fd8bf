"""Credentials for Kafka that change under a load: the worker starts again with them, and nobody notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.installation import Installation
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE
from tests.support.secured_kafka import MountedSecret, SecuredKafka
from tests.system.restarting import LIMIT_S, load_meanwhile, starts

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("started_from_scratch")]  # the command line is executed again

USER, FIRST, SECOND, WRONG = "rotating", "canary-first-77d", "canary-second-a91", "canary-wrong-0c4"
PARTITIONS = 4


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka]) -> SecuredKafka:
    return secured_kafka()


def _mounted(folder: Path, source: Path) -> MountedSecret:
    folder.mkdir(parents=True)
    secret = MountedSecret(folder)
    secret.mount(source)
    return secret


def _again(worker: Worker) -> None:
    wait_until("it has started again", lambda: starts(worker) == 2, LIMIT_S)
    worker.wait_ready()


@pytest.mark.parametrize("is_broker", [False, True], ids=["installation", "broker"])
def test_password_changes_under_load(secured: SecuredKafka, tmp_path: Path, is_broker: bool) -> None:
    """First a wrong one comes, with which the worker goes on as it was."""
    secured.set_password(USER, FIRST)
    secured.set_password("main", FIRST)

    def keys(user: str, password: str) -> Path:
        return secured.sasl_secret(tmp_path / f"secret-{user}-{password}", "SCRAM-SHA-512", user, password)

    secret = _mounted(tmp_path / "secrets" / NAMESPACE / "kafka", keys(USER, FIRST))
    own = {"PENSTOCK_KAFKA_SECRET": str(keys("main", FIRST)), "PENSTOCK_KAFKA_SECRETS": str(tmp_path / "secrets")}
    env = {"PENSTOCK_KAFKA": secured.sasl, **(own if is_broker else {"PENSTOCK_KAFKA_SECRET": str(secret.folder)})}
    name = "kafka" if is_broker else ""

    def rotate(worker: Worker) -> None:
        secret.mount(keys(USER, WRONG))
        says = "changed files are not used"
        wait_until("it says that they are wrong", lambda: says in worker.log.read_text(), LIMIT_S)
        assert starts(worker) == 1
        secured.set_password(USER, SECOND)
        secret.mount(keys(USER, SECOND))
        _again(worker)

    load_meanwhile(
        Installation(secured.direct, tmp_path, PARTITIONS, env=env, is_broker=is_broker, secret=name), rotate
    )
