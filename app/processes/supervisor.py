"""Forks the worker processes of one command, and stays as their supervisor.

    import the product, open the sockets -> fork -> fork -> ... -> wait for signals -> fork again, stop, ...
                                              |       |
                                              worker  worker     `supervise` returns in these, and there only

The supervisor has one thread, no event loop and no Kafka client, so a fork copies nothing that is in use. Its signals
are blocked, and taken one by one. It has the sockets too: while a process is away, connections go to the others, or
wait. To use new code it executes its own command again, which keeps its process id, its sockets and its children.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import structlog

from app.local.child_process import die_with_parent
from app.observability.logging import configure_logging
from app.processes.plan import Action, Plan, PlannedSeat, State
from app.processes.processors import processors
from app.settings.core_dumps import prevent_core_dumps
from app.settings.environment import set_children, take_children
from app.settings.load import Settings
from app.timing import LONGEST_WAIT_S
from app.worker.ports import Ports
from app.worker.seat import STARTED_SIGNAL, Seat
from knative.errors import ExitCode, PenstockError, UsageError

log = structlog.get_logger(__name__)

#: Imported before the fork, so that all processes share them. After the first two: what Faust would import later.
_PRODUCT = (
    "faust.cli.worker", "app.compose", "encodings.idna", "faust.fixups.django", "faust.tables.objects",
    "faust.tables.sets", "faust.topics", "faust.web.cache.backends.memory", "web.http.driver",
)  # fmt: skip
_DELIVERY = ("app.worker.delivery",)
#: What only the first process uses, its copies do not pay for.
_OF_ROLE = {"dispatcher": _DELIVERY, "all": (*_DELIVERY, "controller.service", "faust.transport.drivers.aiokafka")}
_STOPS = (signal.SIGTERM, signal.SIGINT)
_DUMPS = (signal.SIGUSR1, signal.SIGUSR2)  #: for all workers: they write what they do
_SIGNALS = frozenset({*_STOPS, *_DUMPS, signal.SIGHUP, signal.SIGCHLD, STARTED_SIGNAL})
#: The others stay blocked in a worker until it has handlers.
_OF_SUPERVISOR = frozenset({signal.SIGCHLD, STARTED_SIGNAL})
_SIGNAL_NAMES = {each.value: each.name for each in signal.Signals}  # real-time signals have none
_SOCKET_PATH_BYTES_MAX = 107


def supervise(settings: Settings) -> Seat | None:
    """Fork the processes that the settings ask for. Returns in each of them; the supervisor ends with SystemExit. None:
    this process is the only one."""
    former = take_children()
    if _count(settings) == 1 and former is None:
        return None
    if former is None:
        # If the parent ignored it, it would never come. After that, this would discard one that waits.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    return _Supervisor(settings, *(former or ({}, ""))).run()


def _count(settings: Settings) -> int:
    if settings.role == "controller":  # one leads, and others would stand by
        return 1
    return processors(len(os.sched_getaffinity(0))) if settings.processes == "auto" else int(settings.processes)


class _Supervisor:
    def __init__(self, settings: Settings, pids: dict[int, int], folder: str) -> None:
        """`pids`: seat -> process of an earlier program, which serves. `folder`: private, for sockets; "" = none."""
        self._settings, self._pids, self._folder = settings, pids, folder
        self._count = _count(settings)
        self._plan = Plan(self._count, pids)
        self._ports = Ports()
        self._kill_at: float | None = None
        self._hung_up = False
        self._forks_at = 0.0
        self._has_terminal = os.isatty(0)

    def run(self) -> Seat:
        supervisor = os.getpid()
        try:
            return self._run()
        finally:
            if os.getpid() == supervisor:  # not in a worker
                shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> Seat:
        prevent_core_dumps(self._settings)
        configure_logging(self._settings, f"{socket.gethostname()}-{os.getpid()}")
        admin_port = self._settings.admin_port
        ingress = (self._settings.bind, self._settings.http_port)
        try:
            self._ports.take(ingress, (self._settings.admin_bind, admin_port) if admin_port else None)
            self._folder = self._folder or tempfile.mkdtemp(prefix="penstock-")
            self._check_folder()
        except PenstockError as problem:
            log.error(str(problem))
            raise SystemExit(problem.exit_code) from None
        for name in (*_PRODUCT, *_OF_ROLE.get(self._settings.role, ())):
            importlib.import_module(name)
        # Faust asks for the module of each page. The first answer looks at all modules, and copies 4 MB after a fork.
        inspect.getmodule(inspect.currentframe())
        gc.collect()
        gc.freeze()
        log.info("supervisor started", processes=self._count)
        while not self._plan.is_over:
            for planned, action in self._events():
                if self._follow(planned, action):
                    return self._seat(planned.number)
        log.info("supervisor stopped", code=self._plan.code)
        raise SystemExit(self._plan.code)

    def _check_folder(self) -> None:
        longest = self._seat(self._count).admin_socket
        if longest is not None and len(os.fsencode(longest)) > _SOCKET_PATH_BYTES_MAX:
            what = f"The path of a socket, {longest}, has more than {_SOCKET_PATH_BYTES_MAX} bytes."
            raise UsageError(what, "Set TMPDIR to a folder with a shorter path.")

    # -- what happens

    def _events(self) -> list[tuple[PlannedSeat, Action]]:
        """Wait for something that is to be done, and say what."""
        now = time.monotonic()
        if steps := [step for step in self._plan.due(now) if step[1] is not Action.NONE]:
            return steps
        times = [at for at in (self._plan.next_at(), self._kill_at) if at is not None]
        wait_s = max(0.0, min(times) - now) if times else LONGEST_WAIT_S
        got = signal.sigtimedwait(_SIGNALS, wait_s)
        now = time.monotonic()
        if self._kill_at is not None and now > self._kill_at:
            for pid in self._pids.values():
                os.kill(pid, signal.SIGKILL)
            self._kill_at = None
        if got is None:
            return []
        if got.si_signo in _STOPS or (got.si_signo == signal.SIGHUP and self._has_terminal and not os.isatty(0)):
            return list(self._plan.stop(now))
        if got.si_signo == signal.SIGHUP:
            self._hang_up()
        if got.si_signo in _DUMPS:
            for number in self._pids:
                self._send(number, got.si_signo)
        if got.si_signo == STARTED_SIGNAL and (started := self._number_of(got.si_pid)) is not None:
            self._plan.started(started, now)
        return self._ended(now) if got.si_signo == signal.SIGCHLD else []

    def _ended(self, now: float) -> list[tuple[PlannedSeat, Action]]:
        steps: list[tuple[PlannedSeat, Action]] = []
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            number = self._number_of(pid)
            if number is None:
                continue
            del self._pids[number]
            code = os.waitstatus_to_exitcode(status)
            steps += self._plan.ended(number, code, now)
            seat = self._plan.seats[number]
            again = {"again_in_s": round(seat.due_at - now, 1)} if seat.state is State.PAUSED else {}
            if code != ExitCode.LEFT and (again or code != ExitCode.DONE):
                why = {"signal": _SIGNAL_NAMES.get(-code, -code)} if code < 0 else {"exit_code": code}
                log.error("a worker process has ended", process=number + 1, pid=pid, **again, **why)
        return steps

    def _number_of(self, pid: int) -> int | None:
        return next((number for number, own in self._pids.items() if own == pid), None)

    def _hang_up(self) -> None:
        """The first process tries what has changed; if there is none now, the next one does."""
        self._hung_up = 0 not in self._pids
        self._send(0, signal.SIGHUP)

    # -- what is done

    def _follow(self, planned: PlannedSeat, action: Action) -> bool:
        """Returns whether this is a new worker process now."""
        if action is Action.FORK:
            return self._fork(planned.number)
        if action is Action.HAND_OVER:
            log.info("a worker process is asked to hand over", process=planned.number + 1)
            self._send(planned.number, signal.SIGHUP)
        if action is Action.STOP:
            if self._plan.is_stopping and self._kill_at is None:
                self._close_ports()
            self._send(planned.number, signal.SIGTERM)
        if action is Action.RENEW:
            self._execute_again()
        return False

    def _send(self, number: int, signal_number: int) -> None:
        if number in self._pids:  # else it has ended in the same moment
            os.kill(self._pids[number], signal_number)

    def _fork(self, number: int) -> bool:
        self._forks_at = time.monotonic()
        supervisor, stop_with_it = os.getpid(), die_with_parent(signal.SIGTERM)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError as problem:  # too many processes, or too little memory
            log.error("a worker process cannot be started", process=number + 1, reason=str(problem))
            list(self._plan.ended(number, ExitCode.FAILED, time.monotonic()))
            return False
        if pid == 0:
            if stop_with_it is not None:
                stop_with_it()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_SUPERVISOR)
            return True
        self._pids[number] = pid
        log.info("a worker process was started", process=number + 1, pid=pid, supervisor=supervisor)
        if number == 0 and self._hung_up:
            self._hang_up()
        return False

    def _seat(self, number: int) -> Seat:
        sockets = (*self._ports.ingress, *self._ports.admin)
        return Seat(number, self._count, self._settings, sockets, Path(self._folder), os.getppid(), self._forks_at)

    def _close_ports(self) -> None:
        """From now on connections are refused, when the workers have closed theirs too."""
        # A worker closes its connections within the drain, and its watchdog ends it 40 s later. This comes last.
        self._kill_at = time.monotonic() + 2 * self._settings.drain_s + LONGEST_WAIT_S
        for listener in (*self._ports.ingress, *self._ports.admin):
            listener.close()

    def _execute_again(self) -> None:
        log.info("the supervisor executes its command again")
        self._ports.pass_on()
        set_children(self._pids, self._folder)
        try:
            self._ports.execute_again()
        except OSError as problem:  # it goes on with the code that it has
            log.error("the supervisor cannot execute its command", reason=str(problem))
            self._ports.keep()
