"""The place of a worker process among those that a supervisor has forked (`app/processes`)."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.settings.load import Settings

#: A worker tells its supervisor by this signal that it serves. The kernel queues those of several processes.
STARTED_SIGNAL = signal.SIGRTMIN


@dataclass(frozen=True, slots=True)
class Seat:
    """What a process of several gets from its supervisor. The first has the admin port and what is needed once: the
    controller, traffic windows, and the trial of new settings."""

    number: int  #: from 0
    count: int
    settings: Settings
    sockets: tuple[socket.socket, ...]  #: of ingress and admin port
    folder: Path  #: where the other processes serve their admin pages
    supervisor: int  #: process id
    began_at: float  #: by the monotonic clock of the system, which all processes share

    @property
    def is_first(self) -> bool:
        """Whether what is needed once is here."""
        return self.number == 0

    @property
    def admin_socket(self) -> str | None:
        """The path of the socket at which this process serves its admin pages; None = at the port."""
        return None if self.is_first else self._socket(self.number)

    @property
    def others(self) -> dict[int, str]:
        """The same of the others; people count processes from 1."""
        return {number + 1: self._socket(number) for number in range(1, self.count)}

    def _socket(self, number: int) -> str:
        return str(self.folder / f"{number + 1}.sock")

    def started(self) -> None:
        """Tell the supervisor that this process serves."""
        with suppress(ProcessLookupError):  # it has just been killed, and this process ends too
            os.kill(self.supervisor, STARTED_SIGNAL)
