"""Real processes for system tests and measurements: workers, the load generator and the sink.

Each writes its output to a file that is shown when something fails, and dies with the process that started it.
Observes workers from outside only: by HTTP, signals and /proc.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from app.local.child_process import die_with_parent
from app.local.kafka.ports import is_free
from tests.support.prepared import Prepared, start_prepared
from tests.support.proc import cpu_s

REPOSITORY = Path(__file__).parents[2]
_POLL_S, _POLL_MAX_S = 0.05, 0.5
_TAIL_LINES = 40
_numbers = itertools.count(1)
#: Below those of app.local.kafka.ports.
_FIRST_PORT, _PORTS_EACH, _PORT_RANGES = 10_000, 1_000, 10


class Failed(AssertionError):
    """A process did not do what the test needs; the message ends with what it said last."""


def _ports() -> Iterator[int]:
    """Every port of this process's own range, again and again."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PORT_RANGES
    first, at = _FIRST_PORT + number * _PORTS_EACH, random.randrange(_PORTS_EACH)
    for step in itertools.count(at):
        yield first + step % _PORTS_EACH


_port_numbers = _ports()


def free_port() -> int:
    """A TCP port of loopback without a listener at this moment.

    What it is for may listen much later, on a busy machine. So no port is given twice within hundreds of others, no
    two processes of pytest-xdist get the same one, and neither outgoing connections nor the product's own choice of
    free ports take ports of this range.
    """
    return next(port for port in itertools.islice(_port_numbers, _PORTS_EACH) if is_free(port))


def wait_until(what: str, holds: Callable[[], bool], limit_s: float, poll_s: float = _POLL_S) -> None:
    """Poll until `holds()`; raises Failed with `what` after `limit_s`. Polls less often the longer it has waited: each
    question takes CPU that what it waits for may need."""
    began_s = time.monotonic()
    while not holds():
        waited_s = time.monotonic() - began_s
        if waited_s > limit_s:
            raise Failed(f"not within {limit_s:g} s: {what}")
        time.sleep(max(poll_s, min(waited_s / 10, _POLL_MAX_S)))


def get(port: int, path: str, limit_s: float = 30.0) -> tuple[int, bytes]:
    """GET from loopback: status and body; status 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=limit_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


@contextmanager
def paused(pid: int | None) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end: what the process is sent meanwhile waits."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class StartedByWith:
    """Several processes: `with` starts them and stops them at its end. If only some could be started, they are stopped
    too."""

    def start(self) -> None:
        """Start all."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop those that run."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _start(
    command: Sequence[str], env: Mapping[str, str], folder: Path, out: IO[bytes], err: IO[bytes]
) -> subprocess.Popen[bytes] | Prepared:
    """A process with nothing to read, which dies with the thread that starts it. Its outputs are files with names."""
    return start_prepared(command, env, str(folder), out.name, err.name) or subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        cwd=folder,
        env=env,
        preexec_fn=die_with_parent(),
    )


class Child:
    """A process that we started. Start it from the main thread: it dies with the thread that starts it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}-{next(_numbers)}.log"
        self._out = self.log.with_suffix(".out")
        whole = {**clean_environment(), "PYTHONPATH": str(REPOSITORY), **(env or {})}
        with self.log.open("wb") as log, self._out.open("wb") as out:
            self.process = _start(command, whole, folder, out, log)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and str(self.log) not in str(error):
            sys.stderr.write(self.tail() + "\n")
        self.kill()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(10)

    def terminate(self, limit_s: float = 180.0) -> int:
        """SIGTERM, wait, return the exit code. Raises Failed after `limit_s`."""
        self.process.terminate()
        return self.wait(limit_s)

    def wait(self, limit_s: float) -> int:
        """Wait until it ends by itself, return the exit code. Raises Failed after `limit_s`."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.name} did not end within {limit_s:g} s\n{self.tail()}") from error

    def pause(self) -> None:
        """SIGSTOP; `kill` still works."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def output(self) -> str:
        return self._out.read_text(errors="replace")

    def tail(self) -> str:
        lines = [*self.output().splitlines()[-_TAIL_LINES:], *self.log.read_text(errors="replace").splitlines()]
        return "\n".join([f"--- {self.name} (exit {self.process.poll()}), {self.log}:", *lines[-_TAIL_LINES:]])

    def cpu_s(self) -> float:
        """User and system time of the process so far."""
        return cpu_s(self.process.pid)

    def rss_bytes(self) -> int:
        return self._memory("VmRSS")

    def most_rss_bytes(self) -> int:
        return self._memory("VmHWM")

    def _memory(self, what: str) -> int:
        line = re.search(rf"^{what}:\s+(\d+) kB$", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(line[1]) * 1024 if line else 0


class Worker(Child):
    """`faust -A app worker`, or `app worker` for several processes, with settings from its environment only."""

    def __init__(
        self,
        role: str,
        bootstrap: str,
        folder: Path,
        resources: Path | None = None,
        env: Mapping[str, str] | None = None,
        limit_s: float = 180.0,
        python: str = sys.executable,
    ) -> None:
        """Starts it; `wait_ready` waits. Settings in `env` win over all others. `python`: that of another version."""
        self.port, self.admin_port, self._limit_s = free_port(), free_port(), limit_s
        program = "app" if "PENSTOCK_PROCESSES" in (env or ()) else "faust -A app"
        command = [python, "-m", *f"{program} worker -l info --web-port {self.port}".split()]  # as `faust` is used
        settings = {
            "PENSTOCK_KAFKA": bootstrap,
            "PENSTOCK_ROLE": role,
            "PENSTOCK_HTTP_PORT": str(self.port),
            "PENSTOCK_ADMIN_PORT": str(self.admin_port),
        }
        if resources is not None:
            settings["PENSTOCK_RESOURCES"] = f"file:{resources}"
        super().__init__(f"worker-{role}", command, folder, {**settings, **(env or {})})

    def url(self, channel: str, namespace: str = "test") -> str:
        """The ingress URL of a channel, by path."""
        return f"http://127.0.0.1:{self.port}/channels/{namespace}/{channel}"

    def wait_ready(self) -> Worker:
        """Until /readyz answers 200."""
        self._wait("/readyz answers 200", lambda: get(self.port, "/readyz")[0] == 200)
        return self

    def consumed(self) -> float:
        """Records this worker has taken from Kafka so far, by its own metrics; 0 while they do not answer."""
        _, body = get(self.admin_port, "/metrics")
        lines = [line for line in body.decode().splitlines() if line.startswith("eventing_kafka_consumed_msg_count{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def subscribers(self, channel: str, namespace: str = "test") -> list[dict[str, Any]]:
        """The rows of GET /subscribers/<ns>/<channel>; none while it does not answer 200."""
        status, body = get(self.port, f"/subscribers/{namespace}/{channel}")
        if status != 200:
            return []
        rows = json.loads(body)
        return list(rows["subscribers"] if isinstance(rows, dict) else rows)

    def wait_subscribers(self, channel: str, count: int, limit_s: float | None = None) -> list[dict[str, Any]]:
        """Until the channel has exactly `count` subscribers and all are ready; their rows."""
        rows: list[dict[str, Any]] = []

        def all_ready() -> bool:
            rows[:] = self.subscribers(channel)
            return len(rows) == count and all(row["ready"] == "True" for row in rows)

        self._wait(f"{count} subscribers of {channel} ready (last seen: {rows})", all_ready, limit_s)
        return rows

    def _wait(self, what: str, holds: Callable[[], bool], limit_s: float | None = None) -> None:
        def alive_and_holds() -> bool:
            if not self.running:
                raise Failed(f"{self.name} ended while waiting: {what}\n{self.tail()}")
            return holds()

        try:
            wait_until(what, alive_and_holds, limit_s or self._limit_s)
        except Failed as error:
            raise Failed(f"{error}\n{self.tail()}") from error


class SinkProcess(Child):
    """`benchmarks.sink` on a free port; stop it with `terminate` to have its ledger complete."""

    def __init__(
        self, folder: Path, paths: Mapping[str, str] | None = None, ledger: Path | None = None, port: int = 0
    ) -> None:
        """`paths`: subscriber name -> behaviour text ("delay_s=0.01,fail_chance=0.1"); `port` 0 = a free one."""
        command = [sys.executable, "-m", "benchmarks.sink", "--port", str(port)]
        for name, behaviour in (paths or {}).items():
            command += ["--path", f"{name}={behaviour}"]
        if ledger is not None:
            command += ["--ledger", str(ledger)]
        super().__init__("sink", command, folder)
        wait_until("the sink says its port", lambda: self.output().endswith("\n") or not self.running, 180)
        if not self.running:
            raise Failed(self.tail())
        self.port = int(json.loads(self.output())["port"])

    def url(self, name: str) -> str:
        """The subscriber URL of one name."""
        return f"http://127.0.0.1:{self.port}/sub/{name}"

    def stats(self) -> dict[str, dict[str, int]]:
        status, body = get(self.port, "/stats")
        if status != 200:
            raise Failed(f"the sink answered {status} to /stats\n{self.tail()}")
        stats: dict[str, dict[str, int]] = json.loads(body)
        return stats


class LoadProcess(Child):
    """`benchmarks.load` with its options by name: `LoadProcess(folder, url, events=100, sequential=True)`."""

    def __init__(self, folder: Path, url: str, **options: object) -> None:
        command = [sys.executable, "-m", "benchmarks.load", url]
        for name, value in options.items():
            command.append("--" + name.replace("_", "-"))
            if value is not True:
                command.append(str(value))
        super().__init__("load", command, folder)

    def result(self, limit_s: float) -> dict[str, Any]:
        """Wait until it has ended and give its numbers. Raises Failed when it could not finish."""
        if self.wait(limit_s) != 0:
            raise Failed(f"the load did not finish\n{self.tail()}")
        result: dict[str, Any] = json.loads(self.output().splitlines()[-1])
        return result


def clean_environment() -> dict[str, str]:
    """Ours without Penstock's settings, so that a developer's shell does not change a test."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_") and name != "PORT"}


def penstock(*arguments: str, settings: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `penstock ARGUMENT...` to its end, for at most three minutes. `settings`: all that it has of Penstock's; None
    = those of this process."""
    command = [sys.executable, "-m", "app.cli", *arguments]
    env = os.environ if settings is None else {**clean_environment(), **settings}
    return run(command, env)


def run(
    command: Sequence[str], env: Mapping[str, str], limit_s: float = 180.0, folder: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises subprocess.TimeoutExpired."""
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        process = _start(command, env, folder, out, err)
        try:
            code = process.wait(limit_s)
        finally:
            process.kill()
            process.wait(10)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(command, code, *texts)
