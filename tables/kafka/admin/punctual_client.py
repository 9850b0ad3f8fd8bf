"""A client of aiokafka whose requests arrive soon or never. No other module uses its internals.

While a network is cut, the kernel keeps sending data that was not acknowledged, for up to a quarter of an hour, even if
the process is frozen or has closed the connection. And Kafka accepts a commit however late it arrives.
"""

from __future__ import annotations

import socket
import struct
from typing import Any
from weakref import WeakSet

from aiokafka.client import AIOKafkaClient

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # on, after 0 s


class PunctualClient(AIOKafkaClient):  # type: ignore[misc]  # has no types
    """An aiokafka client whose requests arrive soon or never. Event loop only."""

    def __init__(self, *, arrive_s: float, **settings: Any) -> None:
        """`arrive_s`: what the other machine has not acknowledged after that is dropped, and so is the connection."""
        super().__init__(**settings)
        self._arrive_ms = round(arrive_s * 1000)
        self._punctual: WeakSet[Any] = WeakSet()

    async def _get_conn(self, *place: Any, **options: Any) -> Any:
        """aiokafka calls this before each request; it returns the same connection as long as that is open."""
        connection = await super()._get_conn(*place, **options)
        if connection is not None and connection not in self._punctual:
            at = connection._writer.get_extra_info("socket")
            at.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._arrive_ms)
            # What is closed would still send the rest. And a proxy drops what it holds of a connection that is reset.
            at.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._punctual.add(connection)
        return connection
