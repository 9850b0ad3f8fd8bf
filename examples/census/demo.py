"""`demo`: all of the example on a Kafka of its own, with kill -9 of each part, compared with a plain count.

    files -> plain count      read (killed, again) -> compute x 2 (one killed) -> results (killed, started again)
                  |                                                                  |
                  +------------------------- equal? <------------------ GET /results-+

Some lines are wrong on purpose, one file is truncated and one is missing. Uses free ports, topics of its own and a
temporary folder; only jars are shared.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.cli.output.format import note
from app.cli.output.jar_progress import jar_progress
from app.local.child_process import Child
from app.local.kafka import EmbeddedKafka
from app.local.kafka.ports import LOOPBACK, free_port
from app.local.probes import DIRECT
from app.timing import END_S, LONG_S
from examples.census import topics
from examples.census.samples import file_name, plain_count, write
from examples.census.totals import tally
from knative.errors import ExitCode, NotReadyError, PenstockError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.timing import ANSWER_S, SPARING_S

_LOGS = Path(".penstock/logs")
_YEARS, _MONTHS, _TRUNCATED = (2018, 2019), ("jan", "feb"), "mar"
_SLOW = ("--delay", "20")  # ms for each chunk, so that the kills come in the middle


@dataclass(slots=True)
class _Demo:
    """A running demo, with topics of its own."""

    home: Path
    kafka: str
    spark: Sequence[str]
    name: str = field(default_factory=lambda: f"census-demo-{secrets.token_hex(4)}")
    port: int = field(default_factory=free_port)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return [f"{self.name}-compute", f"{self.name}-results"]

    def command(self, name: str, *flags: str) -> list[str]:
        compute, results = self.topics
        command = [sys.executable, "-m", "examples.census", name.partition("-")[0], "--kafka", self.kafka]
        command += ["--compute-topic", compute, "--results-topic", results, "--results-port", str(self.port), *flags]
        if name.startswith("read"):
            command += ["--url", f"file://{self.home}/files/{{year}}/{{month}}{{yy}}pub.dat.gz", *self.spark]
            command += ["--years", ",".join(map(str, _YEARS)), "--months", ",".join((*_MONTHS, _TRUNCATED))]
        return command

    def start(self, name: str, *flags: str) -> None:
        self.children[name] = Child(name, self.command(name, *flags), _LOGS / f"census-{name}.log")

    def page(self) -> dict[str, Any]:
        try:
            with DIRECT.open(f"http://{LOOPBACK}:{self.port}/results?wide", timeout=10) as answer:
                page: dict[str, Any] = json.load(answer)
                return page
        except (OSError, ValueError):
            return {}

    def wait(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until it holds of the page. Raises PenstockError if a part has ended, NotReadyError after the limit."""
        end_s = time.monotonic() + LONG_S
        while not holds(page := self.page()):
            for name, child in self.children.items():
                if child.code is not None:
                    raise PenstockError(f"The process {name} exited (exit code {child.code}): {child.last_words}")
            if time.monotonic() > end_s:
                last = f"The last page: {json.dumps(page)}. The logs are in {_LOGS}."
                raise NotReadyError(f"Not within {LONG_S:.0f} s: {what}.", last)
            time.sleep(SPARING_S)
        return page

    def stop(self) -> None:
        for child in self.children.values():
            child.stop(END_S)
        topics.remove(KafkaAdmin({"bootstrap.servers": self.kafka}, ANSWER_S), self.topics)


def run(lines: int, master: str, conf: Sequence[str], kafka: str) -> dict[str, Any]:
    """Run the demo with files of this many lines, and return its report. `kafka` "" = one of its own. Raises
    PenstockError if a part does not work at all."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-census-demo-") as name:
        home = Path(name)
        _LOGS.mkdir(parents=True, exist_ok=True)
        files = [(year, write(home / "files", year, month, lines, 0.006)) for year in _YEARS for month in _MONTHS]
        truncated = home / "files" / str(_YEARS[0]) / file_name(_YEARS[0], _TRUNCATED)
        truncated.write_bytes(files[0][1].read_bytes()[: files[0][1].stat().st_size // 2])
        note(f"Made {len(files)} files of {lines} lines. One more is truncated, and one is missing.")
        with _kafka(home, kafka) as bootstrap:
            demo = _Demo(home, bootstrap, ["--master", master, *(f"--conf={setting}" for setting in conf)])
            try:
                page = _through(demo, -(-lines // 10) * len(files))
            finally:
                demo.stop()
        report = {key: page[key] for key in ("years", "problems", "lines")}
        equal = report == tally(plain_count(files))
    repeats = page["records"] - page["chunks"]
    note(f"The totals {'are' if equal else 'ARE NOT'} those of a plain count, with {repeats} results that came twice.")
    seconds = round(time.monotonic() - began_s, 1)
    return {**report, "chunks": page["chunks"], "repeats": repeats, "equal": equal, "seconds": seconds}


@contextmanager
def _kafka(home: Path, running: str) -> Iterator[str]:
    if running:
        yield running
        return
    note("Starting Kafka ...")
    with jar_progress() as progress:
        kafka = EmbeddedKafka(home / "kafka", 0, heap="384m", jars_root=Path(".penstock/kafka"), progress=progress)
        kafka.start(LONG_S)
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def _through(demo: _Demo, chunks: int) -> dict[str, Any]:
    """Returns the last page, with this many chunks."""
    topics.ensure(KafkaAdmin({"bootstrap.servers": demo.kafka}, ANSWER_S), demo.topics[0], 4, 1)
    for name in ("read-1", "compute-1", "compute-2", "results"):
        demo.start(name, *_SLOW)
    note("Waiting for the first chunks ...")
    demo.wait("the first chunks are counted", lambda page: page.get("chunks", 0) > 0)
    for name in ("read-1", "compute-1", "results"):
        note(f"Killing {name} ...")
        demo.children.pop(name).kill()
    for name in ("compute-3", "results"):
        demo.start(name)
    note("Reading all files again ...")
    again = subprocess.run(demo.command("read-2"), check=False, timeout=LONG_S)
    if again.returncode != ExitCode.PARTLY:  # two of the files cannot be used
        raise PenstockError(f"read ended with {again.returncode}, and {ExitCode.PARTLY} was right.")
    return demo.wait("all is counted", lambda page: bool(page.get("complete")) and page["chunks"] == chunks)
