"""An implementation: a folder with the commands `receiver` and `dispatcher`, and the environment they get.

benchmarks/README.md describes the interface. The measured process is the one that a command starts (commands use
`exec`). Penstock's own implementation is a folder like any other.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.processes import Child, Failed, free_port

OWN = Path(__file__).parent / "implementations" / "penstock"
COMMANDS = ("receiver", "dispatcher")
NOT_OFFERED = 64  #: the exit code of a command that cannot do what it is asked to
_PREPARE_LIMIT_S = 150.0


class NotOffered(Exception):
    """The implementation says that it cannot do this."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One subscription to deliver. `order`: ordered, key-ordered or unordered; `in_flight`: most requests at once."""

    name: str
    url: str
    order: str = "ordered"
    in_flight: int = 100
    retry: int = 10
    backoff_s: float = 0.2
    dead_letter_url: str | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate and key of a receiver, and the authority that its clients trust."""

    certificate: Path
    key: Path
    authority: Path


def make_tls(folder: Path) -> Tls:
    """Makes a certificate for loopback, below `folder`."""
    authority = Authority(folder / "authority")
    signed = authority.sign("receiver")
    return Tls(signed.certificate, signed.key, authority.certificate)


@dataclass(frozen=True, slots=True)
class Implementation:
    """A folder with commands. Raises ValueError when one is missing."""

    folder: Path

    def __post_init__(self) -> None:
        for command in COMMANDS:
            if not os.access(self.folder / command, os.X_OK):
                raise ValueError(f"{self.folder} has no executable {command!r}; see benchmarks/README.md")

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Assignment:
    """The environment for the commands of one scene. `folder` is theirs alone and outlives each process."""

    kafka: str
    topic: str
    partitions: int
    path: str
    folder: Path
    subscriptions: tuple[Wanted, ...] = ()
    tls: Tls | None = None  #: of its receivers
    processes: int = 1  #: of each receiver

    def environment(self) -> dict[str, str]:
        """Returns it as variables; the subscriptions are in a file."""
        file = self.folder / "subscriptions.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(subscription) for subscription in self.subscriptions], indent=1))
        variables = {
            "BENCH_KAFKA": self.kafka,
            "BENCH_TOPIC": self.topic,
            "BENCH_PARTITIONS": str(self.partitions),
            "BENCH_PATH": self.path,
            "BENCH_DIR": str(self.folder),
            "BENCH_SUBSCRIPTIONS": str(file),
            "BENCH_PROCESSES": str(self.processes),
        }
        if self.tls is not None:
            variables |= {"BENCH_TLS_CERT": str(self.tls.certificate), "BENCH_TLS_KEY": str(self.tls.key)}
        return variables


class Process(Child):
    """A running command: measured by /proc, ended by SIGTERM."""

    def __init__(self, implementation: Implementation, command: str, assignment: Assignment) -> None:
        self.port = free_port()
        ports = {"BENCH_PORT": str(self.port), "BENCH_ADMIN_PORT": str(free_port())}
        self._assignment = assignment
        super().__init__(
            command, [str(implementation.folder / command)], assignment.folder, {**assignment.environment(), **ports}
        )

    @property
    def url(self) -> str:
        """Where a receiver takes events."""
        scheme = "http" if self._assignment.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}{self._assignment.path}"

    def resident_mb(self) -> float:
        """Returns what it holds in memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def check(self) -> None:
        """Raises NotOffered or Failed when it has ended."""
        code = self.process.poll()
        if code == NOT_OFFERED:
            raise NotOffered(self.name)
        if code is not None:
            raise Failed(f"{self.name} ended with {code}\n{self.tail()}")

    def end(self) -> None:
        """Sends SIGTERM, which may also be what ends it; raises Failed when something else does."""
        code = self.terminate()
        if code not in (0, -signal.SIGTERM):
            raise Failed(f"{self.name} ended with {code} after SIGTERM\n{self.tail()}")


def prepare(implementation: Implementation, assignment: Assignment) -> None:
    """Run its command `prepare` to the end, if it has one. Raises NotOffered or Failed."""
    command = implementation.folder / "prepare"
    if not os.access(command, os.X_OK):
        return
    with Child("prepare", [str(command)], assignment.folder, assignment.environment()) as child:
        code = child.wait(_PREPARE_LIMIT_S)
        if code == NOT_OFFERED:
            raise NotOffered("prepare")
        if code != 0:
            raise Failed(f"{command} ended with {code}\n{child.tail()}")
