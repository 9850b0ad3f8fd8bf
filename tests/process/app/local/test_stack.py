"""The stack of `penstock up` before it starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app.cli.output.steps import Steps
from app.local.kafka import EmbeddedKafka
from app.local.packaged import example
from app.local.stack import Stack, StackConfig
from knative.errors import PenstockError, UsageError


def test_second_up_says_first_that_there_is_one(tmp_path: Path) -> None:
    """Its ports are taken too, and none of them is what is wrong."""
    other = EmbeddedKafka(tmp_path, port=0)
    other.claim()
    with socket.create_server(("127.0.0.1", 0)) as first:
        config = StackConfig(
            home=tmp_path, resources=example("quickstart"), jars_root=tmp_path, kafka_data=tmp_path,
            http_port=first.getsockname()[1],
        )  # fmt: skip
        with pytest.raises(UsageError, match="Another command runs a Kafka in"):
            Stack(config, Steps()).start()
    other.stop()


def test_port_in_use_is_named_with_its_address_and_its_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = StackConfig(
            home=tmp_path, resources=example("quickstart"), jars_root=tmp_path, kafka="127.0.0.1:9092",
            http_port=port, admin_port=0, subscriber_port=0,
        )  # fmt: skip
        with pytest.raises(PenstockError) as raised:
            Stack(config, Steps()).start()
    assert str(raised.value) == (
        f"Port {port} on 127.0.0.1 (for events) is already in use. Stop the program that uses it, or choose other "
        "ports: "
        "--any-port, or --http-port N."
    )


def test_stack_that_never_started_has_nothing_to_stop(tmp_path: Path) -> None:
    assert not Stack(StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path), Steps()).runs
