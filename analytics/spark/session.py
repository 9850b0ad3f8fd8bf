"""One Spark session, created the same way for every job: local, on a cluster, over Spark Connect, or by spark-submit.

    with spark_session(SparkOptions(app_name="penstock topology", jars=(folder,))) as spark:
        ...

    SparkOptions()                         local[*], in this process's own JVM
    SparkOptions(master="spark://h:7077")  a stand-alone cluster; Penstock's modules are sent as a zip
    SparkOptions(remote="sc://h:15002")    Spark Connect: the server's jars and settings apply, not these
    SparkOptions(submitted=True)           started by spark-submit, whose arguments apply

The session listens on loopback unless a cluster must reach it, serves no UI, filters the JVM's log, runs its Python
workers with this interpreter, and reports a failed start in one sentence. One process holds one session at most.

Stable for other jobs: `SparkOptions`, `spark_session`, `spark_jars`, `find_jar`. Does not download jars
(app/operations/spark_jars.py does that at set-up) and does not read the environment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from analytics.spark.interrupts import Interrupts
from analytics.spark.jvm_log import Listener, explain_run, explain_start, is_broken
from analytics.spark.pyfiles import write_zip
from knative.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CONFIG = Path(__file__).parent / "log4j2.properties"
LOOPBACK = "127.0.0.1"
KAFKA_JAR = "spark-sql-kafka-0-10_"  #: prefixes of the Kafka connector's file names
LOCAL_PARTITIONS = 4  #: minimum partitions of an exchange on this machine
CLUSTER_PARTITIONS = 200
_END_LIMIT_S = 10.0
_CONNECTOR_PARTS = (KAFKA_JAR, "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where and how a session runs. Memory as Spark writes it (`1g`)."""

    app_name: str = "penstock"
    master: str | None = None  #: None: local[*]
    remote: str | None = None  #: sc://host:port, instead of a master
    jars: tuple[Path, ...] = ()  #: jar files, or folders of them
    shuffle_partitions: int | None = None  #: None: chosen by where the session runs
    driver_memory: str = "1g"
    driver_host: str = LOOPBACK  #: where executors find this process; those on other machines need a reachable name
    submitted: bool = False  #: spark-submit has already chosen master, jars and memory
    progress: bool | None = None  #: Spark's progress bar; None: shown if stderr is a terminal
    small: bool = False  #: little data: compiling queries would take longer than running them
    rounds: bool = False  #: the job walks a graph, round by round
    settings: Mapping[str, str] = field(default_factory=dict)  #: further Spark settings; these take precedence

    @property
    def is_local(self) -> bool:
        """Whether everything runs in this process's JVM."""
        return self.remote is None and not self.submitted and (self.master or "local").startswith("local")


@contextlib.contextmanager
def spark_session(options: SparkOptions) -> Iterator[SparkSession]:
    """Yields a session for one run; stops it at the end.

    Raises PenstockError with a hint when the session cannot start or its JVM ends. Ctrl-C at any moment raises one
    KeyboardInterrupt, after the JVM has ended.
    """
    problem = options_problem(options)
    if problem:
        raise UsageError(*problem)
    jvm = _Jvm()
    with _without_words_of_py4j(), Interrupts() as interrupts, _scratch(options) as (options, folder):
        try:
            with contextlib.ExitStack() as stack:
                spark = _start(options, jvm, interrupts, folder)
                interrupts.set_again()
                stack.callback(_stop, spark, interrupts)
                if not options.is_local and options.remote is None and not options.submitted:
                    # Executors fetch the zip when their first task starts, so it must exist as long as the session.
                    modules = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-modules-"))
                    spark.sparkContext.addPyFile(str(write_zip(Path(modules))))
                yield spark
        except BaseException as why:
            if interrupts.heard:
                jvm.end()
                raise KeyboardInterrupt from None
            error = explain_run(why, jvm.last_lines(why), options.driver_memory)
            if error is None:
                raise
            raise error from why


@contextlib.contextmanager
def _scratch(options: SparkOptions) -> Iterator[tuple[SparkOptions, str]]:
    """Yields a temporary folder, in which the JVM runs: Spark makes a folder `artifacts` where it is. A local session
    has all its files in it: a JVM that ends with a full heap leaves gigabytes of them. SPARK_LOCAL_DIRS takes
    precedence."""
    name = "spark.local.dir"
    with tempfile.TemporaryDirectory(prefix="penstock-spark-", ignore_cleanup_errors=True) as folder:
        if options.is_local and name not in options.settings:
            options = replace(options, settings={**options.settings, name: folder})
        yield options, folder


class _Jvm:
    """The JVM process of a session that this process starts. Empty when Spark runs elsewhere."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.gateway: Any = None
        self.begun: subprocess.Popen[bytes] | None = None  #: the process that was still starting when Ctrl-C came

    def last_lines(self, why: BaseException) -> list[str] | None:
        """Returns the JVM's last lines before it ended; None while it is alive.

        A broken connection means that the JVM is about to end, so then this waits for it.
        """
        process = getattr(self.gateway, "proc", None)
        if self.listener is None or process is None:
            return None
        try:
            process.wait(_END_LIMIT_S if is_broken(why) else 0)
        except subprocess.TimeoutExpired:
            return None
        return self.listener.last_lines()

    def is_known(self, frame: FrameType | None) -> bool:
        """Returns whether Ctrl-C may interrupt PySpark's start here: it already holds the JVM process in a variable.

        An interrupted start must kill that process, or it never ends. PySpark deletes the folder of the file to which
        the JVM would write its address, so the JVM never reaches the point where it waits for the end of its input.
        """
        # PySpark does not return the process before it has started, so look for it in the frames of the call.
        while frame is not None:
            process = frame.f_locals.get("proc") if frame.f_code.co_name == "launch_gateway" else None
            if isinstance(process, subprocess.Popen):
                self.begun = process
                return True
            frame = frame.f_back
        return False

    def end(self) -> None:
        """End the JVM immediately; a job may still run in it.

        Once started, a JVM ends when its standard input is closed.
        """
        if self.listener is not None:
            self.listener.mute()
        if self.begun is not None:
            self.begun.kill()
            self.begun.wait()
        process = getattr(self.gateway, "proc", None)
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def spark_home() -> str:
    """Returns the folder of the Spark that PySpark brings."""
    import pyspark

    return os.path.dirname(str(pyspark.__file__))


def _start(options: SparkOptions, jvm: _Jvm, interrupts: Interrupts, folder: str) -> SparkSession:
    if options.remote is not None:
        return _connect(options)
    if options.submitted:
        return _quiet(_builder(options, {}).getOrCreate())
    return _launch(options, jvm, interrupts, folder)


def _stop(spark: SparkSession, interrupts: Interrupts) -> None:
    """Stop the session, unless Ctrl-C came: then the connection waits for another answer, and the JVM is ended instead.

    A signal to the whole process group may have ended the JVM already; then there is nothing to stop.
    """
    from py4j.protocol import Py4JError

    if not interrupts.heard:
        with contextlib.suppress(ConnectionError, Py4JError):
            spark.stop()


@contextlib.contextmanager
def _without_words_of_py4j() -> Iterator[None]:
    """Silences py4j, which logs every error that it also raises, with traces: by the root logger and by its own."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def options_problem(options: SparkOptions) -> tuple[str, str] | None:
    """Returns the problem with these options, as (what, hint); None if none is found before the start."""
    if options.master is not None and options.remote is not None:
        return "--master and --remote cannot be combined.", "Use one of them: a session runs in one place."
    if options.remote is not None and not options.remote.startswith("sc://"):
        return (
            f"--remote {options.remote!r} is not a valid address of Spark Connect.",
            "Write sc://HOST:PORT (the usual port is 15002).",
        )
    beginnings = ("local", "spark://", "yarn", "k8s://")
    if options.master is not None and not options.master.startswith(beginnings):
        return (
            f"--master {options.master!r} is not a valid address of a Spark master.",
            "Write local[*], spark://HOST:7077, k8s://https://HOST:443 or yarn.",
        )
    return None


def spark_jars(places: Sequence[Path]) -> list[Path]:
    """Returns every jar in these folders (or the file itself), the first of each name. Raises UsageError."""
    jars: dict[str, Path] = {}
    for place in places:
        if not place.exists():
            raise UsageError(f"There are no jars at {place}.", "Name a folder of jars, or a jar.")
        for jar in sorted(place.glob("*.jar")) if place.is_dir() else [place]:
            jars.setdefault(jar.name, jar.absolute())
    return list(jars.values())


def find_jar(places: Sequence[Path], beginning: str) -> Path | None:
    """Returns the first jar whose name starts with `beginning`, as `graphframes-spark4_2.13-`; None: there is none."""
    return next((jar for jar in spark_jars(places) if jar.name.startswith(beginning)), None)


def missing_connector(places: Sequence[Path]) -> list[str]:
    """Returns the prefixes of the jars that Kafka needs and that these places lack."""
    names = [jar.name for jar in spark_jars(places)]
    return [part for part in _CONNECTOR_PARTS if not any(name.startswith(part) for name in names)]


def spark_settings(options: SparkOptions) -> dict[str, str]:
    """Returns all settings of a session at its start, by name."""
    progress = sys.stderr.isatty() if options.progress is None else options.progress
    settings = {
        "spark.driver.host": options.driver_host,
        "spark.driver.bindAddress": LOOPBACK if options.driver_host == LOOPBACK else "0.0.0.0",
        "spark.driver.memory": options.driver_memory,
        # -Xss: Spark searches the text of exceptions with a regular expression that recurses deeply.
        "spark.driver.extraJavaOptions": " ".join(
            (
                f"-Dlog4j2.configurationFile={LOG_CONFIG.as_uri()}",
                "-Xss4m",
                *_FULL_HEAP_ENDS,
                *_collector(options),
                *_java(options),
            )
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        **sql_settings(options),
    }
    if options.small:
        settings["spark.executor.extraJavaOptions"] = " ".join(_java(options))
    jars = spark_jars(options.jars)
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    return {**settings, **options.settings}


#: End the JVM when its heap is full. Otherwise Spark would retry for hours without success.
_FULL_HEAP_ENDS = ("-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr")
#: Also end it when the heap is nearly full: only the parallel collector detects that it does nothing but collect.
_NEARLY_FULL_ENDS = ("-XX:+UseParallelGC", "-XX:GCTimeLimit=80", "-XX:GCHeapFreeLimit=5")


def _collector(options: SparkOptions) -> tuple[str, ...]:
    """Returns the garbage collector. Many rounds over one graph fill the heap slowly; serial uses 90 MB less."""
    return _NEARLY_FULL_ENDS if options.rounds else ("-XX:+UseSerialGC",)


def _java(options: SparkOptions) -> tuple[str, ...]:
    """Returns JVM flags for a job of seconds: compile quickly instead of well, which took half of the CPU time."""
    return ("-XX:TieredStopAtLevel=1",) if options.small else ()


#: Queries are interpreted: to compile the code that Spark generates takes longer than to run it on little data.
NO_GENERATED_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: For queries on very little data, where each step is one task: no generated code, no exchange.
SMALL_SETTINGS = {
    **NO_GENERATED_CODE,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


def _shuffle_partitions(options: SparkOptions) -> int:
    """Returns the number of partitions of an exchange. Adaptive execution merges small ones, but never splits any.

    The cores of a cluster are unknown until it has granted some, so there the number is Spark's own default.
    """
    if not options.is_local:
        return CLUSTER_PARTITIONS
    cores = re.fullmatch(r"local\[(\*|\d+)(?:,.*)?\]", options.master or "local[*]")
    if cores is None:
        return LOCAL_PARTITIONS
    return max(LOCAL_PARTITIONS, (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1]))


def sql_settings(options: SparkOptions) -> dict[str, str]:
    """Returns settings that may also be set in a running session."""
    settings = {
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions or _shuffle_partitions(options)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "30s",  # the default is to wait forever
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if options.small:
        settings |= SMALL_SETTINGS
    return {name: options.settings.get(name, value) for name, value in settings.items()}


def _builder(options: SparkOptions, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder  # a property to Python, a method to mypy
    builder = builder.appName(options.app_name)
    for name, value in {**sql_settings(options), **settings}.items():
        builder = builder.config(name, value)
    return builder


def _launch(options: SparkOptions, jvm: _Jvm, interrupts: Interrupts, folder: str) -> SparkSession:
    """Start a JVM in this folder, and a session in it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(spark_settings(options).items()))
    conf.setAppName(options.app_name).setMaster(options.master or "local[*]")
    listener = jvm.listener = Listener()
    try:
        launch: Any = launch_gateway  # has no type annotations
        with interrupts.only_where(jvm.is_known):
            jvm.gateway = launch(conf, popen_kwargs={"stderr": listener.inlet, "cwd": folder})
        # The JVM has its own copy of the pipe now. While this one is open, the reader would never see the pipe's end.
        listener.close_inlet()
        context = SparkContext(gateway=jvm.gateway, conf=conf)
        # Creating the context has replaced the SIGINT handler.
        interrupts.set_again()
        # Without this, PySpark prints a trace if the JVM ends while a task's counters arrive.
        counts: Any = context._accumulatorServer
        counts.handle_error = _nothing
    except PenstockError:
        raise
    except Exception as problem:
        listener.close_inlet()
        raise explain_start(problem, listener.last_lines(), options.master or "local[*]") from problem
    if context.pythonExec == "python3":  # PYSPARK_PYTHON is not set
        context.pythonExec = sys.executable
    return _quiet(_builder(options, {}).getOrCreate())


def _nothing(*_: object) -> None:
    """Ignores an error of the counter server."""


def _quiet(spark: SparkSession) -> SparkSession:
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _connect(options: SparkOptions) -> SparkSession:
    from pyspark.errors import PySparkException

    try:
        spark: SparkSession = _builder(options, options.settings).remote(options.remote).getOrCreate()
        spark.range(1).count()  # Spark Connect connects with the first query
    except (PySparkException, ImportError, OSError) as problem:
        raise explain_start(problem, [], options.remote or "") from problem
    return spark
