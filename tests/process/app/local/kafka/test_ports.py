"""Ports: free ones are found, open ones seen."""

from __future__ import annotations

import socket

from app.local.kafka import ports


def test_ports() -> None:
    port = ports.free_port()
    assert ports.is_free(port)
    assert not ports.is_open(port)
    with socket.create_server((ports.LOOPBACK, port)):
        assert not ports.is_free(port)
        assert ports.is_open(port)
