"""`make demo-census`: the whole census demo on a Kafka of its own, with two kills; its last line is one JSON object.

    generate -> plain count            read -> compute (killed, started again) -> results (killed, started again)
                     |                                                                  |
                     +------------------------- equal? <------------------ GET /results-+

Some lines of the files are wrong on purpose, one file is truncated and one is read twice. Ends with 0 only if the
totals equal the plain count, which does not use the pipeline. Uses free ports, topics of its own and a temporary
directory; only jars are shared.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analytics.census.generator import Recipe, write
from analytics.census.plain import Count, count_files, same
from app.cli.output.format import note
from app.cli.output.jar_progress import jar_progress
from app.local.child_process import Child
from app.local.kafka import EmbeddedKafka
from app.local.kafka.jars import Progress
from app.local.kafka.ports import LOOPBACK, free_port
from app.local.packaged import python_module
from app.local.probes import DIRECT
from app.timing import END_S, LONG_S
from knative.errors import NotReadyError, PenstockError
from tables.timing import SPARING_S

_JARS_ROOT = Path(".penstock/kafka")
_LOGS = Path(".penstock/logs")
_YEARS, _MONTHS = (2018, 2019), ("jan", "feb")
_CUT = "mar18pub.dat.gz"


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """`kill`: SIGKILL compute and results once each, in the middle of their work."""

    engine: str = "spark"
    lines: int = 2_003  #: in each file
    kill: bool = True
    master: str = "local[2]"
    conf: tuple[str, ...] = ()  #: NAME=VALUE for Spark
    kafka: str = ""  #: a running Kafka, instead of one of its own
    say: Callable[[str], None] = note


@dataclass(slots=True)
class _Run:
    """A running demo, with topics of its own."""

    config: DemoConfig
    home: Path
    kafka: str
    name: str = field(default_factory=lambda: f"census-demo-{secrets.token_hex(4)}")
    port: int = field(default_factory=free_port)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        """The topics of chunks and of results."""
        return [f"{self.name}-compute", f"{self.name}-results"]

    def command(self, *arguments: str) -> list[str]:
        """`penstock census ARGUMENTS`."""
        return python_module("app.cli", "census", *arguments, "--kafka", self.kafka)

    def start(self, name: str, *arguments: str) -> None:
        """Start a part in the background."""
        command = self.command(*arguments, "--results-topic", self.topics[1])
        self.children[name] = Child(name, command, self.home / "logs" / f"{name}.log")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a part to its end."""
        command = self.command(*arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG_S)

    def compute(self) -> None:
        """Start the part that counts."""
        more = [
            "--compute-topic",
            self.topics[0],
            "--engine",
            self.config.engine,
            "--delay",
            str(4 if self.config.kill else 0),  # ms for each chunk, so that the kills come in the middle
        ]
        if self.config.engine == "spark":
            more += ["--checkpoint", str(self.home / "checkpoint"), "--master", self.config.master]
            more += [part for one in self.config.conf for part in ("--conf", one)]
        self.start("compute", "compute", *more)

    def results(self) -> None:
        """Start the part that adds up."""
        self.start("results", "results", "--port", str(self.port))

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.config.say(f"Killing {name} ...")
        self.children.pop(name).kill()

    def summary(self) -> dict[str, Any]:
        """The answer of /results?wide, or {} if there is none."""
        try:
            with DIRECT.open(f"http://{LOOPBACK}:{self.port}/results?wide", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, OSError, ValueError):
            return {}

    def wait(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until `holds`. Raises PenstockError if a part has ended, NotReadyError after the limit."""
        end = time.monotonic() + LONG_S
        while not holds(found := self.summary()):
            for name, child in self.children.items():
                if child.code is not None:
                    raise PenstockError(f"The process {name} exited (exit code {child.code}): {child.last_words}")
            if time.monotonic() > end:
                last = (
                    f"The last answer of /results?wide: {json.dumps(found)}." if found else "/results did not answer."
                )
                raise NotReadyError(f"Not within {LONG_S:.0f} s: {what}. {last} The logs are in {_LOGS}.")
            time.sleep(SPARING_S)
        return found

    def stop(self) -> None:
        """Stop all parts and keep the logs."""
        for child in self.children.values():
            child.stop(END_S)
        if self.config.kafka:
            self.run("rmtopics", "--topic", ",".join(self.topics), "--force")
        _LOGS.mkdir(parents=True, exist_ok=True)
        for log in (self.home / "logs").glob("*.log*"):
            shutil.copyfile(log, _LOGS / f"census-{log.name}")


def run(config: DemoConfig) -> dict[str, Any]:
    """Run the demo and return its report. Raises PenstockError if a part does not work at all."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-census-demo-") as name, jar_progress() as progress:
        home = Path(name)
        (home / "logs").mkdir()
        files = _make_files(home, config)
        with _kafka(config, home, progress) as bootstrap:
            demo = _Run(config, home, bootstrap)
            try:
                plain, found = _through(demo, files)
            finally:
                demo.stop()
    report = _report(plain, found)
    lines = f"{report['lines']} lines, {len(report['years'])} years, {report['repeats']} chunks that came twice"
    config.say(f"{lines}: {'equal to' if report['equal'] else 'NOT EQUAL TO'} the plain count.")
    return {**report, "engine": config.engine, "seconds": round(time.monotonic() - began, 1)}


@contextmanager
def _kafka(config: DemoConfig, home: Path, progress: Progress) -> Iterator[str]:
    if config.kafka:
        yield config.kafka
        return
    config.say("Starting Kafka ...")
    kafka = EmbeddedKafka(home / "kafka", 0, heap="384m", jars_root=_JARS_ROOT, progress=progress)
    kafka.start(LONG_S)
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def _make_files(home: Path, config: DemoConfig) -> list[tuple[int, Path]]:
    recipe = Recipe(config.lines, 7, 0.002, 0.002, 0.002)
    made = [write(home / "files", year, month, recipe) for year in _YEARS for month in _MONTHS]
    cut = home / "files" / _CUT
    cut.write_bytes(made[0].path.read_bytes()[: made[0].path.stat().st_size // 2])
    config.say(f"Made {len(made)} files of {config.lines} lines, and one that is truncated.")
    return [(one.year, one.path) for one in made]


def _through(demo: _Run, files: Sequence[tuple[int, Path]]) -> tuple[Count, dict[str, Any]]:
    """The plain count, and what `/results?wide` reports at the end."""
    plain = count_files(files)
    of_a_file = -(-demo.config.lines // 10)
    chunks = of_a_file * len(files)
    first = files[0][0]
    _read(demo, first, [*(path for year, path in files if year == first), demo.home / "files" / _CUT], 4)
    demo.results()
    demo.compute()
    if demo.config.kill:
        demo.config.say(f"Waiting for {demo.config.engine} to count the first chunks ...")
        demo.wait("the first chunks are counted", lambda found: found.get("chunks", 0) > 0)
        demo.kill("compute")
        demo.kill("results")
        demo.results()
        demo.compute()
    _read(demo, files[-1][0], [path for year, path in files if year != first], 0)
    _read(demo, first, [files[0][1]], 0)  # again: it must count once
    demo.config.say("Waiting for the rest ...")
    found = demo.wait(
        f"{chunks} chunks are counted, and those that came again were seen",
        lambda found: bool(found.get("complete")) and found["chunks"] >= chunks and found["repeats"] >= of_a_file,
    )
    return plain, found


def _read(demo: _Run, year: int, paths: Sequence[Path], code: int) -> None:
    """`penstock census read`, which must end with `code`."""
    given = [part for path in paths for part in ("--from-file", str(path))]
    done = demo.run("read", "--years", str(year), "--compute-topic", demo.topics[0], *given)
    demo.config.say(done.stdout.rstrip())
    if done.returncode != code:
        raise PenstockError(f"read ended with {done.returncode}, and {code} was right: {done.stderr.strip()}")


def _report(plain: Count, found: dict[str, Any]) -> dict[str, Any]:
    counted = {int(year): {int(code): n for code, n in codes.items()} for year, codes in found["years"].items()}
    problems = {name: count for name, count in found["problems"].items() if count}
    equal = same(plain.years, counted) and problems == plain.problems and found["lines"] == plain.lines
    return {
        "years": found["years"], "problems": found["problems"], "lines": found["lines"], "chunks": found["chunks"],
        "repeats": found["repeats"], "equal": equal,
    }  # fmt: skip
