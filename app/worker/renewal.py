"""What a process was started with: settings, credentials for Kafka, code. When it changes, a new run of it takes over.

    a file changes, SIGHUP -> valid? -> new ports free? -> accepted by Kafka? -> can the program be built? -> `restart`
                                | no         | no                 | no                  | no
                                +------------+--------------------+---------------------+--> `problem`; the process
                                                                            goes on as it is, and tries again

Nothing in a process follows a change: it drains as at a stop, and executes itself (`app/worker/ports`). So a
mistake such as a wrong password cuts nobody off, and neither does a broker that does not know of a new one yet. Of
permissions, only those on the internal topics and on the topics of Brokers are asked: a user that lacks others is
noticed when it is used. Certificates of the ingress and tokens are not part of this: `app/worker/secrets/file_watch`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from app.observability.admin_server import OTHER_ADMIN_PORT
from app.settings.kafka import secrets_folder, worker_kafka, worker_kafka_without_secret, worker_needs
from app.settings.load import Settings, load_settings, settings_file
from app.timing import LOOK_S
from app.worker.secrets.broker_secrets import AGAIN_S, TRY_LIMIT_S, BrokerSecret
from knative.backoff import doubling_s
from knative.contract.broker_secrets import SecretProblem
from knative.errors import PenstockError, UsageError
from tables.file_signatures import Signature, signature
from tables.kafka.acceptance import refused
from tables.kafka.connection.broker_secrets import read_broker_secret
from tables.kafka.connection.secret import paths
from tables.kafka.loop_thread import call_in_thread
from web.http.config import OTHER_PORT
from web.http.listening import open_sockets

log = structlog.get_logger(__name__)

_ENTRY = Path(__file__).parents[2] / "penstock" / "_entry.py"  # a user's project may have a package `app` too
_BUILD = (sys.executable, "-P", str(_ENTRY), "app.trial")


def _different(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Returns the names whose values are others. Not the values."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


class Renewal:
    """Event loop only. `run` it in a task, which ends with the first restart."""

    def __init__(
        self,
        settings: Settings,
        keys: Mapping[str, str],
        secrets: Callable[[], list[BrokerSecret]],
        is_alone: Callable[[], bool],
        restart: Callable[[], Awaitable[None]],
    ) -> None:
        """`keys`: of the installation's Kafka secret, as in use. `secrets`: those of Brokers that are in use.
        `is_alone`: no other worker can take over meanwhile, so there is nothing to take turns with."""
        self.problem: str | None = None  #: why what has changed is not used; None = it is
        self._settings, self._keys, self._secrets = settings, keys, secrets
        self._is_alone, self._restart = is_alone, restart
        self._file = settings_file()
        self._has_terminal = os.isatty(0)
        self._must_restart = False  # after SIGHUP, whether anything has changed or not
        self._asked = asyncio.Event()
        self._seen: Signature | None = None
        self._waits_s: Iterator[float] = iter(())
        self._again_at = 0.0

    def hang_up(self) -> None:
        """SIGHUP: restart also if no file has changed, because the code may have. But a terminal that is gone had
        people who wanted this to end with it."""
        if self._has_terminal and not os.isatty(0):
            signal.raise_signal(signal.SIGTERM)
        else:
            self._asked.set()

    async def run(self) -> None:
        """Look until the restart, which does not return."""
        while not await self.look():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
        await self._restart()

    async def look(self) -> bool:
        """Returns whether what has changed shall be used now."""
        seen, now = signature(self._paths()), time.monotonic()
        if seen != self._seen or self._asked.is_set():
            self._seen, self._waits_s = seen, doubling_s(*AGAIN_S)
            self._must_restart |= self._asked.is_set()
            self._asked.clear()
        elif self.problem is None or now < self._again_at:
            return False
        self._again_at = now + next(self._waits_s)
        try:
            changes = await call_in_thread(self._try, TRY_LIMIT_S, "renewal")
        except TimeoutError:
            return self._failed(f"Kafka did not answer, or the program was not built, within {TRY_LIMIT_S:g} s.")
        except (PenstockError, OSError) as problem:
            return self._failed(str(problem))
        before, self.problem = self.problem, None
        if changes is None:
            if before is not None:
                log.info("the files are as they were before")
            return False
        if not self._is_alone():
            await asyncio.sleep(random.uniform(0, self._settings.session_timeout_s))
        if signature(self._paths()) != seen:  # they have changed meanwhile: the next look tries them
            return False
        log.info("the worker starts again, to use changed files", changes=changes)
        return True

    def _failed(self, problem: str) -> bool:
        if problem != self.problem:
            log.error("changed files are not used", what="settings, Kafka secrets or code", reason=problem)
        self.problem = problem
        return False

    def _paths(self) -> list[Path]:
        files = [self._file] if self._file is not None else []
        if self._settings.kafka_secret:
            files += paths(Path(self._settings.kafka_secret))
        root = secrets_folder(self._settings) or Path()
        return files + [path for secret in self._secrets() for path in paths(root / secret.reference)]

    def _try(self) -> list[str] | None:
        """Returns the names of what has changed, and can be used; None = nothing. In a thread. Raises UsageError."""
        settings = load_settings()
        keys, kafka = worker_kafka(settings)
        before, after = self._settings.model_dump(), settings.model_dump()
        changes = [f"PENSTOCK_{name.upper()}" for name in _different(before, after)] + _different(self._keys, keys)
        brokers = []
        for secret in self._secrets():
            content = read_broker_secret(secrets_folder(settings), secret.reference, in_memory=True)
            if isinstance(content, SecretProblem):
                raise UsageError(f"{content.message}.")
            changes += [f"{secret.reference}/{key}" for key in _different(secret.keys, content[0])]
            brokers.append((secret, {**worker_kafka_without_secret(settings), **content[1]}))
        if not changes and not self._must_restart:
            return None
        hints = _ports(settings)
        for address in hints.keys() - _ports(self._settings).keys():  # the next run could not go back
            for listener in open_sockets(*address, hint=hints[address]):
                listener.close()
        if (refusal := refused(kafka, worker_needs(settings))) is not None:
            where = f" in {settings.kafka_secret}" if settings.kafka_secret else ""
            raise UsageError(f"The credentials for Kafka{where} are not used yet: {refusal.why}.")
        for secret, own in brokers:
            if (problem := secret.refusal(own)) is not None:
                raise UsageError(f"{problem.message}.")
        _build()
        return changes


def _ports(settings: Settings) -> dict[tuple[str, int], str]:
    """Returns the addresses at which a worker listens, each with the hint for one that is not available."""
    ports = {
        (settings.bind, settings.http_port): OTHER_PORT,
        (settings.admin_bind, settings.admin_port): OTHER_ADMIN_PORT,
    }
    return {address: hint for address, hint in ports.items() if address[1]}


def _build() -> None:
    try:
        done = subprocess.run(
            _BUILD, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRY_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UsageError(f"The program cannot be started ({problem}).") from problem
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise UsageError(said[-1] if said else f"The program cannot be built (exit code {done.returncode}).")
