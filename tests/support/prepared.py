"""Starts processes as copies of one that has imported Penstock already: saves 0.9 s of CPU for each worker.

The copies come from Python's own fork server, which ends with the process that has started it, and they end with it. A
copy does what `python -m MODULE ARGUMENT...` does, but the system shows another command line for it, and it shares
memory with the others. Tests of just that use the fixture `started_from_scratch`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from unittest.mock import patch

#: What can be prepared.
_MODULES = ("faust", "app.cli", "benchmarks.load", "benchmarks.sink", "tests.integration.controller_process")
#: Environment variables that count while Python starts and imports.
_EARLY = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_")
_servers = multiprocessing.get_context("forkserver")


def preload(*also: str) -> None:
    """Have the fork server, before its first copy, import these modules too."""
    _servers.set_forkserver_preload(["tests.support.preloaded", *also])


preload()


class Prepared:
    """A process that runs, with what tests use of `subprocess.Popen`."""

    def __init__(self, args: Sequence[str], env: Mapping[str, str], folder: str, outputs: Sequence[str]) -> None:
        """`outputs`: files for standard output and standard error."""
        self.args = args
        self._process = _servers.Process(
            target=_become, args=(args[2], args[3:], {**env}, folder, outputs), daemon=True
        )
        main = sys.modules["__main__"]  # not imported again in each copy
        with patch.object(main, "__spec__", None), patch.object(main, "__file__", None, create=True):
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self.returncode) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


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


def start_prepared(args: Sequence[str], env: Mapping[str, str], folder: str, out: str, err: str) -> Prepared | None:
    """Start `PYTHON -m MODULE ARGUMENT...` in `folder`, with nothing to read and these files for its outputs. None if
    it cannot be a copy, or must not be one."""
    is_ours = list(args[:2]) == [sys.executable, "-m"] and args[2] in _MODULES
    # The parent has the folder of the modules in its path, and children in this variable.
    early = {name: value for name, value in env.items() if name.startswith(_EARLY) and name != "PYTHONPATH"}
    if not (_allowed and is_ours and early.items() <= os.environ.items()):
        return None
    return Prepared(args, env, folder, (out, err))


def _become(module: str, arguments: list[str], env: dict[str, str], folder: str, outputs: Sequence[str]) -> None:
    from tests.support.preloaded import ARGV, ITSELF, dies_with_server

    if dies_with_server is not None:
        dies_with_server()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate((os.devnull, *outputs)):
        file = os.open(name, os.O_RDWR)
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # one tells the server that we live, and it would not end
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ARGV
    sys.argv[1:], sys.path[0] = arguments, folder
    if module in ITSELF:
        del sys.modules[module]  # else Python warns that it runs twice
    else:
        module += ".__main__"
    runpy.run_module(module, run_name="__main__", alter_sys=True)
