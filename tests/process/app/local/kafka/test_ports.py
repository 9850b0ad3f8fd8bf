"""Ports: free ones are found, open ones seen."""

from __future__ import annotations

import socket

from app.local.kafka import ports


def test_free_port_is_free_until_a_server_opens_it() -> None:
    port = ports.free_port()
    assert ports.is_free(port)
    assert not ports.is_open(port)
    with socket.create_server((ports.LOOPBACK, port)):
        assert not ports.is_free(port)
        assert ports.is_open(port)
