"""The sockets of a server: new ones, and those that the process was started with."""

from __future__ import annotations

import socket

import pytest

from app.local.kafka.ports import LOOPBACK
from knative.errors import PenstockError
from tests.support.processes import free_port
from web.http.listening import is_passed_on, open_sockets


@pytest.mark.parametrize("bind", [LOOPBACK, "0.0.0.0", "localhost"])
def test_port_in_use_is_a_sentence(bind: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PenstockError, match=f"^Cannot listen on {bind}:{port}: address already in use. Free it.$"):
            open_sockets(bind, port, hint="Free it.")
    for listener in open_sockets(bind, port):
        listener.close()


def test_address_of_another_machine_is_a_sentence() -> None:
    with pytest.raises(
        PenstockError, match=r"^Cannot listen on 192.0.2.1:80: cannot assign requested address\. Choose"
    ):
        open_sockets("192.0.2.1", 80)
    with pytest.raises(PenstockError, match=r"^Cannot listen on nowhere.invalid:80: .*\. Choose"):
        open_sockets("nowhere.invalid", 80)


def test_all_addresses_of_a_name_have_a_socket() -> None:
    port = free_port()
    expected = {address[0] for *_, address in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
    listeners = open_sockets("localhost", port)
    assert {listener.getsockname()[0] for listener in listeners} == expected
    for listener in listeners:
        listener.close()


def test_socket_that_was_passed_on_is_used_for_its_address_only() -> None:
    with socket.create_server((LOOPBACK, 0)) as passed:
        port, other = passed.getsockname()[1], free_port()
        assert open_sockets(LOOPBACK, port, [passed]) == [passed]
        assert is_passed_on(passed)
        (new,) = open_sockets(LOOPBACK, other, [passed])
        with new:
            assert new.getsockname() == (LOOPBACK, other)
            assert not is_passed_on(new)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, other))
