"""Whether anything listens where Kafka or a worker's own port should be."""

from __future__ import annotations

import socket

import pytest

from app.local.kafka.ports import LOOPBACK
from app.worker import listening
from knative.errors import PenstockError
from tables.kafka.connection.probe import refusal
from tests.support.processes import free_port


def test_a_closed_port_is_reported() -> None:
    first, second = free_port(), free_port()
    assert refusal(f"{LOOPBACK}:{first}") == "connection refused"
    assert refusal(f"{LOOPBACK}:{first}, {LOOPBACK}:{second}") == "connection refused"


def test_one_broker_that_takes_connections_is_enough() -> None:
    with socket.create_server((LOOPBACK, 0)) as there:
        port = there.getsockname()[1]
        for bootstrap in (
            f"{LOOPBACK}:{port}",
            f"{LOOPBACK}:{free_port()},{LOOPBACK}:{port}",
            f"PLAINTEXT://{LOOPBACK}:{port}",
        ):
            assert refusal(bootstrap) == ""


def test_an_unknown_host_name_is_reported() -> None:
    assert refusal("nowhere.invalid:9092") == "the host name nowhere.invalid cannot be resolved"
    both = refusal(f"nowhere.invalid,{LOOPBACK}:{free_port()}")
    assert both == "the host name nowhere.invalid cannot be resolved; connection refused"


def test_an_ipv6_address_is_taken_apart() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as there:
        assert refusal(f"[::1]:{there.getsockname()[1]}") == ""


@pytest.mark.parametrize("bind", [LOOPBACK, "0.0.0.0", "localhost"])
def test_a_port_in_use_is_a_sentence(bind: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as there:
        port = there.getsockname()[1]
        with pytest.raises(PenstockError, match=f"^Cannot listen on {bind}:{port}: address already in use. Free it.$"):
            listening.check(bind, port, "Free it.")
    listening.check(bind, port)


def test_an_address_of_another_machine_is_a_sentence() -> None:
    with pytest.raises(
        PenstockError, match=r"^Cannot listen on 192.0.2.1:80: cannot assign requested address\. Choose"
    ):
        listening.check("192.0.2.1", 80)
    with pytest.raises(PenstockError, match=r"^Cannot listen on nowhere.invalid:80: .*\. Choose"):
        listening.check("nowhere.invalid", 80)
