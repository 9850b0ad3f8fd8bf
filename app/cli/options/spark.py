"""The options that every job on Spark shares, and the session that they describe.

    def traffic(master: Master = "", remote: Remote = "", driver_host: DriverHost = "", memory: Memory = "1g", ...):
        with session("penstock job traffic", JobOptions(master, remote, driver_host, memory)) as spark:

Reports what it waits for: jars to download, a session that takes seconds to start.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analytics.spark.session import options_problem, spark_home, spark_session
from app.cli.options.extras import need_or_install
from app.cli.output.format import note
from app.cli.output.jar_progress import jar_progress
from app.local.kafka.jar_sets import SPARK
from app.operations.spark_jars import check_place, jar_places, spark_options
from app.settings.environment import forget_other_sparks, started_by_spark_submit
from app.settings.extras import ANALYTICS, SPARK_MODULES
from knative.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str,
    typer.Option(
        "--master", help="Spark master: local[*], local[2], spark://HOST:7077; by default PENSTOCK_SPARK_MASTER."
    ),
]
Remote = Annotated[str, typer.Option("--remote", help="sc://HOST:PORT of a Spark Connect server, instead of --master.")]
DriverHost = Annotated[
    str,
    typer.Option(
        "--driver-host",
        help="Address at which the Spark workers reach this machine; by default the address from which it reaches "
        "the master.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="NAME=VALUE for Spark, such as spark.executor.memory=2g; may be repeated."),
]
CheckpointDir = Annotated[
    str,
    typer.Option(
        "--checkpoint-dir",
        help="Folder or URI that all machines of a cluster reach. GraphFrames stores intermediate results there.",
    ),
]
Memory = Annotated[
    str, typer.Option("--driver-memory", help="Memory of Spark's process on this machine, such as 512m or 4g.")
]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within the block, Ctrl-C ends the command with 130 and one sentence."""
    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted; no report was written.")
        raise


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Where a job runs; "" = not given."""

    master: str = ""
    remote: str = ""
    driver_host: str = ""
    memory: str = "1g"
    conf: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()  #: folders with more jars, before those of the settings
    small: bool = False  #: little data (see SparkOptions)
    rounds: bool = False  #: the job may walk a graph (see SparkOptions)

    def settings(self) -> dict[str, str]:
        """Returns `conf` as names and values. Raises UsageError."""
        pairs = [setting.partition("=") for setting in self.conf]
        for name, equals, _ in pairs:
            if not equals or not name.startswith("spark."):
                raise UsageError(f"--conf {name!r} is not a Spark setting.", "Write spark.NAME=VALUE.")
        return {name: value for name, _, value in pairs}

    def check(self) -> str | None:
        """Check what is known before Spark starts, and return what `check_place` does. Raises UsageError, NotReadyError
        if no master answers."""
        need_or_install(ANALYTICS, "A job on Spark", SPARK_MODULES)

        options = spark_options("penstock", self.master, self.remote, jars=(), conf=self.settings())
        if problem := options_problem(options):
            raise UsageError(*problem)
        return check_place(options.remote or options.master or "")


@contextlib.contextmanager
def session(app_name: str, options: JobOptions) -> Iterator[SparkSession]:
    """Yields a Spark session for one command. Raises PenstockError with a hint if it cannot start."""
    here = options.check()  # before anything is downloaded
    if not started_by_spark_submit() and (names := forget_other_sparks(spark_home())):
        note(f"Penstock ignores {', '.join(names)} in the environment: it starts the Spark that is installed with it.")
    with jar_progress(SPARK) as progress:
        jars = [] if options.remote else jar_places(options.jars, progress=progress)
    if sys.stderr.isatty():
        note("Spark is starting ...")
    settings = spark_options(
        app_name,
        options.master,
        options.remote,
        jars=jars,
        driver_host=options.driver_host or here,
        driver_memory=options.memory,
        conf=options.settings(),
    )
    with spark_session(replace(settings, small=options.small, rounds=options.rounds)) as spark:
        yield spark
