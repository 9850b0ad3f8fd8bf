"""The options that every job on Spark shares, and the session that they describe.

    def traffic(master: Master = "", remote: Remote = "", driver_host: DriverHost = "", memory: Memory = "1g", ...):
        with session("penstock job traffic", Place(master, remote, driver_host, memory)) as spark:

Says what it waits for: jars that are brought, a session that takes seconds to start. Refuses to know the jobs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import jar_progress, note

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from analytics.session import SparkOptions

Master = Annotated[
    str,
    typer.Option(
        "--master", help="Where it runs: local[*], local[2], spark://HOST:7077; by default PENSTOCK_SPARK_MASTER."
    ),
]
Remote = Annotated[str, typer.Option("--remote", help="sc://HOST:PORT of a Spark Connect server instead.")]
DriverHost = Annotated[
    str,
    typer.Option(
        "--driver-host", help="Address at which a cluster's workers reach this machine; loopback if not said."
    ),
]
Memory = Annotated[str, typer.Option("--driver-memory", help="Memory of Spark's process here, such as 512m or 4g.")]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs; "" = not said."""

    master: str = ""
    remote: str = ""
    driver_host: str = ""
    memory: str = "1g"


@contextlib.contextmanager
def session(app_name: str, place: Place) -> Iterator[SparkSession]:
    """A Spark session for one command. Raises PenstockError with the cure when it cannot be had."""
    from analytics.session import options_problem, spark_session
    from app.embedded.jar_sets import SPARK
    from app.spark import jar_places, spark_options
    from knative.errors import UsageError

    def options(jars: list[Path]) -> SparkOptions:
        return spark_options(
            app_name, place.master, place.remote, jars=jars, driver_host=place.driver_host, driver_memory=place.memory
        )

    if problem := options_problem(options([])):  # before anything is fetched
        raise UsageError(*problem)
    with jar_progress(SPARK) as progress:
        jars = [] if place.remote else jar_places(progress=progress)
    if sys.stderr.isatty():
        note("Spark is starting ...")
    with spark_session(options(jars)) as spark:
        yield spark
