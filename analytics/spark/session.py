"""One Spark session, the same way for every job: on this machine, on a cluster, over Spark Connect, by spark-submit.

    with spark_session(SparkOptions(app_name="penstock topology", jars=(folder,))) as spark:   # or .stop() it yourself
        ...

    SparkOptions()                         local[*], in this process's own JVM
    SparkOptions(master="spark://h:7077")  a stand-alone cluster; our modules travel along as a zip
    SparkOptions(remote="sc://h:15002")    Spark Connect: the server's jars and settings count, ours do not
    SparkOptions(submitted=True)           started by spark-submit: what that command said counts

It listens on loopback unless a cluster must reach it, serves no UI, keeps the JVM's noise off the terminal, runs its
Python workers with this interpreter, and turns what goes wrong at the start into one sentence. Stable for other jobs:
`SparkOptions`, `spark_session`, `spark_jars`, `find_jar`. Refuses to fetch jars (app/operations/spark_jars.py brings
them at set-up), to read the environment, and to hold more than one session in a process.
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
KAFKA_JAR = "spark-sql-kafka-0-10_"  #: what the Kafka connector's file name begins with
LOCAL_PARTITIONS = 4  #: of an exchange on this machine, at least
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
    shuffle_partitions: int | None = None  #: None: as many as the place has use for
    driver_memory: str = "1g"
    driver_host: str = LOOPBACK  #: where executors find this process; another machine's need a name they can reach
    submitted: bool = False  #: spark-submit has chosen master, jars and memory already
    progress: bool | None = None  #: Spark's progress bar; None: where the error channel is a terminal
    small: bool = False  #: little data: compiling queries for it would take longer than running them
    rounds: bool = False  #: a graph is walked in it, round by round
    settings: Mapping[str, str] = field(default_factory=dict)  #: further Spark settings; they win

    @property
    def is_local(self) -> bool:
        """Whether everything runs in this process's JVM."""
        return self.remote is None and not self.submitted and (self.master or "local").startswith("local")


@contextlib.contextmanager
def spark_session(options: SparkOptions) -> Iterator[SparkSession]:
    """A session for one run. Raises PenstockError with the cure when it cannot start or its JVM ends; stops it in the
    end. Ctrl-C is one KeyboardInterrupt, at any moment; the JVM has ended then."""
    problem = options_problem(options)
    if problem:
        raise UsageError(*problem)
    jvm = _Jvm()
    with _without_words_of_py4j(), Interrupts() as interrupts, _scratch(options) as options:
        try:
            with contextlib.ExitStack() as stack:
                spark = _start(options, jvm, interrupts)
                interrupts.set_again()
                stack.callback(_stop, spark, interrupts)
                if not options.is_local and options.remote is None and not options.submitted:
                    # Executors fetch it from this process when their first task comes: it stays with the session.
                    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-modules-"))
                    spark.sparkContext.addPyFile(str(write_zip(Path(folder))))
                yield spark
        except BaseException as why:
            if interrupts.heard:
                jvm.end()
                raise KeyboardInterrupt from None
            told = explain_run(why, jvm.last_lines(why), options.driver_memory)
            if told is None:
                raise
            raise told from why


@contextlib.contextmanager
def _scratch(options: SparkOptions) -> Iterator[SparkOptions]:
    """A folder for what a session here writes to the disk: a JVM that ends at a full heap leaves gigabytes of it.

    SPARK_LOCAL_DIRS wins over it."""
    name = "spark.local.dir"
    if not options.is_local or name in options.settings:
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="penstock-spark-", ignore_cleanup_errors=True) as folder:
        yield replace(options, settings={**options.settings, name: folder})


class _Jvm:
    """The process that a session of our own runs in. Nothing here when Spark runs elsewhere."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.gateway: Any = None
        self.begun: subprocess.Popen[bytes] | None = None  #: it was starting when Ctrl-C came

    def last_lines(self, why: BaseException) -> list[str] | None:
        """What it said before it ended; None while it lives. A connection that broke says that it is about to end."""
        process = getattr(self.gateway, "proc", None)
        if self.listener is None or process is None:
            return None
        try:
            process.wait(_END_LIMIT_S if is_broken(why) else 0)
        except subprocess.TimeoutExpired:
            return None
        return self.listener.last_lines()

    def is_known(self, frame: FrameType | None) -> bool:
        """Whether Ctrl-C may stop PySpark's start here: it has the process that it waits for in a variable.

        Left alone, that process would live for ever: without the folder of the file that it is to write its address
        to, it never comes to listen for the end of its input.
        """
        while frame is not None:
            found = frame.f_locals.get("proc") if frame.f_code.co_name == "launch_gateway" else None
            if isinstance(found, subprocess.Popen):
                self.begun = found
                return True
            frame = frame.f_back
        return False

    def end(self) -> None:
        """At once: a job may run in it. It ends by itself when its standard input does, if it is past its start."""
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


def _start(options: SparkOptions, jvm: _Jvm, interrupts: Interrupts) -> SparkSession:
    if options.remote is not None:
        return _connect(options)
    if options.submitted:
        return _quiet(_builder(options, {}).getOrCreate())
    return _launch(options, jvm, interrupts)


def _stop(spark: SparkSession, interrupts: Interrupts) -> None:
    """A JVM that a signal to the whole group has ended already has nothing left to stop. After Ctrl-C it is ended: the
    connection to it waits for another answer."""
    from py4j.protocol import Py4JError

    if not interrupts.heard:
        with contextlib.suppress(ConnectionError, Py4JError):
            spark.stop()


@contextlib.contextmanager
def _without_words_of_py4j() -> Iterator[None]:
    """It logs what it raises too, with traces: by the root logger and by its own."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def options_problem(options: SparkOptions) -> tuple[str, str] | None:
    """What is wrong with the place, as (what, cure); None = nothing. The rest only a start can tell."""
    if options.master is not None and options.remote is not None:
        return "--master and --remote are both there.", "Give one of them: a session runs in one place."
    if options.remote is not None and not options.remote.startswith("sc://"):
        return f"--remote {options.remote!r} is no address of Spark Connect.", "Write sc://HOST:PORT (15002 is usual)."
    known = ("local", "spark://", "yarn", "k8s://")
    if options.master is not None and not options.master.startswith(known):
        return (
            f"--master {options.master!r} is no address of a Spark master.",
            "Write local[*], spark://HOST:7077, k8s://https://HOST:443 or yarn.",
        )
    return None


def spark_jars(places: Sequence[Path]) -> list[Path]:
    """Every jar in these folders (files stand for themselves), the first of each name. Raises UsageError."""
    found: dict[str, Path] = {}
    for place in places:
        if not place.exists():
            raise UsageError(f"There are no jars at {place}.", "Name a folder of jars, or a jar.")
        for jar in sorted(place.glob("*.jar")) if place.is_dir() else [place]:
            found.setdefault(jar.name, jar.absolute())
    return list(found.values())


def find_jar(places: Sequence[Path], beginning: str) -> Path | None:
    """The first jar whose name begins so: how a job probes for what it needs (`graphframes-spark4_2.13-`)."""
    return next((jar for jar in spark_jars(places) if jar.name.startswith(beginning)), None)


def missing_connector(places: Sequence[Path]) -> list[str]:
    """Beginnings of the names of the jars that Kafka needs and these places lack."""
    names = [jar.name for jar in spark_jars(places)]
    return [part for part in _CONNECTOR_PARTS if not any(name.startswith(part) for name in names)]


def spark_settings(options: SparkOptions) -> dict[str, str]:
    """Everything that Spark is told at its start, by name."""
    progress = sys.stderr.isatty() if options.progress is None else options.progress
    found = {
        "spark.driver.host": options.driver_host,
        "spark.driver.bindAddress": LOOPBACK if options.driver_host == LOOPBACK else "0.0.0.0",
        "spark.driver.memory": options.driver_memory,
        # The stack: Spark looks through the text of an exception with a regular expression that recurses.
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
        **_sql_settings(options),
    }
    if options.small:
        found["spark.executor.extraJavaOptions"] = " ".join(_java(options))
    jars = spark_jars(options.jars)
    if jars:
        found["spark.jars"] = ",".join(map(str, jars))
    return {**found, **options.settings}


#: A heap that is full ends the JVM: Spark would go on for hours, in vain.
_FULL_HEAP_ENDS = ("-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr")
#: And so does one that is nearly full: of the collectors only this one knows when it does nothing but collect.
_NEARLY_FULL_ENDS = ("-XX:+UseParallelGC", "-XX:GCTimeLimit=80", "-XX:GCHeapFreeLimit=5")


def _collector(options: SparkOptions) -> tuple[str, ...]:
    """Many rounds over one graph fill a heap slowly. Everything else takes 90 MB less with the serial collector."""
    return _NEARLY_FULL_ENDS if options.rounds else ("-XX:+UseSerialGC",)


def _java(options: SparkOptions) -> tuple[str, ...]:
    """What a JVM is told that lives for seconds: to compile quickly, not well. Half of its CPU went into that."""
    return ("-XX:TieredStopAtLevel=1",) if options.small else ()


#: For queries over so little that each step is one task: no code is generated, and nothing is exchanged.
SMALL_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


def _shuffle_partitions(options: SparkOptions) -> int:
    """Into how many parts an exchange goes. Adaptive execution puts small ones together, but never parts one.

    A cluster's cores are not known before it has given some: there it is what Spark takes by itself.
    """
    if not options.is_local:
        return CLUSTER_PARTITIONS
    cores = re.fullmatch(r"local\[(\*|\d+)(?:,.*)?\]", options.master or "local[*]")
    if cores is None:
        return LOCAL_PARTITIONS
    return max(LOCAL_PARTITIONS, (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1]))


def _sql_settings(options: SparkOptions) -> dict[str, str]:
    """Those that may be set in a session that runs already."""
    found = {
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions or _shuffle_partitions(options)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "30s",  # for ever by default
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    return {**found, **(SMALL_SETTINGS if options.small else {})}


def _builder(options: SparkOptions, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder  # a property to Python, a method to mypy
    builder = builder.appName(options.app_name)
    for name, value in {**_sql_settings(options), **settings}.items():
        builder = builder.config(name, value)
    return builder


def _launch(options: SparkOptions, jvm: _Jvm, interrupts: Interrupts) -> SparkSession:
    """A JVM of our own, and a session in it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(spark_settings(options).items()))
    conf.setAppName(options.app_name).setMaster(options.master or "local[*]")
    listener = jvm.listener = Listener()
    try:
        launch: Any = launch_gateway  # which has no annotations
        with interrupts.only_where(jvm.is_known):
            jvm.gateway = launch(conf, popen_kwargs={"stderr": listener.inlet})
        listener.close_inlet()
        context = SparkContext(gateway=jvm.gateway, conf=conf)
        interrupts.set_again()
        # It prints a trace when the JVM goes while a task's counts come in.
        counts: Any = context._accumulatorServer
        counts.handle_error = _nothing
    except PenstockError:
        raise
    except Exception as problem:
        listener.close_inlet()
        raise explain_start(problem, listener.last_lines(), options.master or "local[*]") from problem
    if context.pythonExec == "python3":  # nobody said PYSPARK_PYTHON
        context.pythonExec = sys.executable
    return _quiet(_builder(options, {}).getOrCreate())


def _nothing(*_: object) -> None:
    """To handle an error in silence, where nobody is left that it matters to."""


def _quiet(spark: SparkSession) -> SparkSession:
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _connect(options: SparkOptions) -> SparkSession:
    from pyspark.errors import PySparkException

    try:
        spark: SparkSession = _builder(options, options.settings).remote(options.remote).getOrCreate()
        spark.range(1).count()  # it connects at the first question
    except (PySparkException, ImportError, OSError) as problem:
        raise explain_start(problem, [], options.remote or "") from problem
    return spark
