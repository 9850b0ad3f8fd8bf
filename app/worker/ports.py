"""The sockets of a worker's ports, which outlive it when it executes its own command again.

    before: descriptors 3, 4, ...; LISTEN_FDS and LISTEN_PID say so     as systemd does for a service
    after:  `take` finds them

The process id and the arguments stay the same. Nothing else is passed on: all other descriptors are closed, and threads
end. Signals that arrive in between wait until the next program has handlers, instead of ending it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from app.observability.admin_server import OTHER_ADMIN_PORT
from app.settings.environment import set_listening, take_listening
from app.worker.seat import Seat
from knative.errors import ExitCode
from web.http.listening import open_sockets

Address = tuple[str, int]

_LOOK_S = 0.02
_FIRST = 3  # after standard input, output and error
_SIGNALS = frozenset({signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2})


def handle_signals() -> None:
    """There are handlers now, also for signals that have waited."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


class Ports:
    """`take` before anything else starts, so that a port in use is reported at once."""

    def __init__(self, seat: Seat | None = None) -> None:
        """`seat`: the sockets are those of its supervisor, and stay open there."""
        self._seat = seat
        self.ingress: list[socket.socket] = []
        self.admin: list[socket.socket] = []
        self._copies: list[socket.socket] = []

    def take(self, ingress: Address | None, admin: Address | None) -> None:
        """None: there is no such server. Raises PenstockError for an address that is not available."""
        passed = _passed() if self._seat is None else list(self._seat.sockets)
        if ingress is not None:
            self.ingress = open_sockets(*ingress, passed)
        if admin is not None:
            self.admin = open_sockets(*admin, passed, OTHER_ADMIN_PORT)
        for listener in passed:
            if listener not in self.ingress and listener not in self.admin:  # the settings have another address
                listener.close()

    @staticmethod
    async def serve(web: Any, is_ready: Callable[[], bool], limit_s: float) -> None:
        """Have the ingress server take the connections that wait at a socket which was passed on, as soon as the worker
        is ready or the limit is over. At a new socket it serves from the beginning, which shows why it is not ready."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not is_ready():  # noqa: ASYNC110  # once in the life of a process
                    await asyncio.sleep(_LOOK_S)
        await web.serve()

    @property
    def are_passed_on(self) -> bool:
        """Whether connections wait for the next program when the servers stop."""
        return bool(self._copies)

    def pass_on(self) -> None:
        """Keep the ports open for the next program."""
        self._copies = [listener.dup() for listener in (*self.ingress, *self.admin)]

    def keep(self) -> None:
        """There is no next program: the ports close with their servers."""
        for copy in self._copies:
            copy.close()
        self._copies = []

    def execute_again(self) -> NoReturn:
        """Become the next run of this process; or its supervisor starts it. Raises OSError when the command is gone."""
        if self._seat is not None:
            os._exit(ExitCode.LEFT)
        count = len(self._copies)
        above = [fcntl.fcntl(copy, fcntl.F_DUPFD_CLOEXEC, _FIRST + count) for copy in self._copies]
        for name in os.listdir("/proc/self/fd"):
            _close_on_exec(int(name))
        for target, copy in enumerate(above, _FIRST):
            os.dup2(copy, target, inheritable=True)
        set_listening(count)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _passed() -> list[socket.socket]:
    sockets = []
    for descriptor in range(_FIRST, _FIRST + take_listening()):
        os.set_inheritable(descriptor, False)
        sockets.append(socket.socket(fileno=descriptor))
    return sockets


def _close_on_exec(descriptor: int) -> None:
    if descriptor >= _FIRST:
        try:
            os.set_inheritable(descriptor, False)
        except OSError:  # that of the listing itself
            return
