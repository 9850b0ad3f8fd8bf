"""Whether anything listens where Kafka should be."""

from __future__ import annotations

import socket

from app.local.kafka.ports import LOOPBACK
from tables.kafka.connection.probe import refusal
from tests.support.processes import free_port


def test_closed_port_is_reported() -> None:
    first, second = free_port(), free_port()
    assert refusal(f"{LOOPBACK}:{first}") == "connection refused"
    assert refusal(f"{LOOPBACK}:{first}, {LOOPBACK}:{second}") == "connection refused"


def test_one_broker_that_takes_connections_is_enough() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        for bootstrap in (
            f"{LOOPBACK}:{port}",
            f"{LOOPBACK}:{free_port()},{LOOPBACK}:{port}",
            f"PLAINTEXT://{LOOPBACK}:{port}",
        ):
            assert refusal(bootstrap) is None


def test_unknown_host_name_is_reported() -> None:
    assert refusal("nowhere.invalid:9092") == "the host name nowhere.invalid cannot be resolved"
    both = refusal(f"nowhere.invalid,{LOOPBACK}:{free_port()}")
    assert both == "the host name nowhere.invalid cannot be resolved; connection refused"


def test_ipv6_address_is_taken_apart() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert refusal(f"[::1]:{server.getsockname()[1]}") is None
