"""Starts processes as copies of one that has imported Penstock already: saves 0.6 s of CPU for each worker.

    python -m tests.support.prepared FD MODULE IMPORT...   imports them, then waits for orders
    order   arguments, environment, folder, files for outputs  -->  a fork, which runs the module
    reply   the process id, and its exit code when it has ended

A copy does what `python -m MODULE ARGUMENT...` does, but the system shows another command line for it, and it shares
memory with the others. Tests of just that use the fixture `started_from_scratch`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from app.local.child_process import die_with_parent

_COMMANDS = "configuration dlq doctor explain lag remove seek send status tail topology traffic validate"
#: What each of these modules imports when it runs, or most of it.
_IMPORTS: Mapping[str, tuple[str, ...]] = {
    "faust": ("faust.cli.faust", "app.compose"),
    "app.cli": tuple(f"app.cli.{name}" for name in _COMMANDS.split()),
    "tests.integration.controller_process": (),
    "benchmarks.sink": (),
    "benchmarks.load": (),
}
_CLUSTER = ("controller.cluster",)  # imported for resources of a cluster
#: Environment variables that count while Python starts and imports.
_EARLY = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_")
_ORDER_BYTES_MAX = 150_000  # less than what a socket sends at once
_LIMIT_S = 180.0
_Early = tuple[tuple[str, str], ...]


class Prepared:
    """A process that runs, with what tests use of `subprocess.Popen`."""

    def __init__(self, args: Sequence[str], reply: socket.socket) -> None:
        """Waits until it has its id."""
        self.args = args
        self.returncode: int | None = None
        self._reply = reply
        self.pid = int(self._read(_LIMIT_S))

    def _read(self, limit_s: float | None) -> bytes:
        self._reply.settimeout(limit_s)
        if found := self._reply.recv(100):
            return found
        raise RuntimeError(f"what prepares processes ended before this one: {self.args}")

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            try:
                self.returncode = int(self._read(timeout))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Template:
    """The process with the imports, seen from a test. It ends with the thread that starts it, and so do its copies."""

    def __init__(self, module: str, imports: Sequence[str], early: _Early, folder: Path) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), module, *imports],
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env={"PATH": os.environ["PATH"], **dict(early)},
                pass_fds=[theirs.fileno()],
                preexec_fn=die_with_parent(),
            )
        atexit.register(self._end)

    def start(self, args: Sequence[str], env: Mapping[str, str], folder: Path, out: int, err: int) -> Prepared:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            order = json.dumps([[*args], {**env}, str(folder)]).encode()
            self._orders.settimeout(_LIMIT_S)
            socket.send_fds(self._orders, [order], [theirs.fileno(), out, err])
        return Prepared(args, mine)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait(_LIMIT_S)


_templates: dict[tuple[str, Sequence[str], _Early], _Template] = {}
_allowed = False  # what measures processes starts them from scratch


@contextlib.contextmanager
def prepared(allowed: bool) -> Iterator[None]:
    """Whether processes may be prepared from here on."""
    global _allowed
    before, _allowed = _allowed, allowed
    try:
        yield
    finally:
        _allowed = before


def start_prepared(args: Sequence[str], env: Mapping[str, str], folder: Path, out: int, err: int) -> Prepared | None:
    """Start `PYTHON -m MODULE ARGUMENT...` in `folder`, with nothing to read and these files for its outputs. None if
    nothing is prepared for the module, it is not allowed, or this is not the main thread."""
    if list(args[:2]) != [sys.executable, "-m"] or args[2] not in _IMPORTS:
        return None
    if not _allowed or threading.current_thread() is not threading.main_thread():
        return None
    early = tuple(sorted((name, value) for name, value in env.items() if name.startswith(_EARLY)))
    of_cluster = args[2] == "faust" and env.get("PENSTOCK_RESOURCES", "").startswith("cluster:")
    key = args[2], _IMPORTS[args[2]] + (_CLUSTER if of_cluster else ()), early
    if key not in _templates:
        _templates[key] = _Template(*key, folder)
    return _templates[key].start(args[3:], env, folder, out, err)


def _serve(orders: socket.socket, main: str) -> Callable[[], None] | None:
    """Fork for each order. Returns in a copy, with what it does next; and None when there are no more orders."""
    dies_with_us = die_with_parent()
    with selectors.PollSelector() as selector:  # which has no descriptor that a copy would share
        selector.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not orders:
                    selector.unregister(key.fd)
                    _report_end(key.fd, *key.data)
                    continue
                order, files, *_ = socket.recv_fds(orders, _ORDER_BYTES_MAX, 3)
                if not order:
                    return None
                reply, outputs = socket.socket(fileno=files[0]), files[1:]
                pid = os.fork()
                if pid == 0:
                    _close(reply)
                    for each in selector.get_map().values():
                        _close(each.fileobj, *(each.data or ())[1:])
                    if dies_with_us is not None:
                        dies_with_us()
                    args, env, folder = json.loads(order)
                    return partial(_become, main, args, env, folder, outputs)
                _close(*outputs)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, reply))
                _reply(reply, pid)


def _report_end(ended: int, pid: int, reply: socket.socket) -> None:
    _reply(reply, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    _close(ended, reply)


def _close(*those: Any) -> None:
    """Sockets, and descriptors of none."""
    for one in those:
        os.close(one) if isinstance(one, int) else one.close()


def _reply(reply: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test that started it has gone
        reply.send(str(number).encode())


def _become(main: str, args: list[str], env: dict[str, str], folder: str, outputs: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[1:], sys.path[0] = args, folder
    runpy.run_module(main, run_name="__main__", alter_sys=True)


def _main(orders: str, module: str, *imports: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the tests too, and they end their processes
    for name in (module, *imports):
        importlib.import_module(name)
    main = f"{module}.__main__" if hasattr(sys.modules[module], "__path__") else module
    if main == module:
        del sys.modules[module]  # else Python warns that it runs twice
    gc.collect()
    gc.freeze()
    then = _serve(socket.socket(fileno=int(orders)), main)
    if then is not None:
        then()


if __name__ == "__main__":
    _main(*sys.argv[1:])
