"""Fixtures that need what is slow to start: one embedded Kafka for a whole test session, topics in it, one Spark."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.local.kafka import EmbeddedKafka
from app.local.kafka.ports import is_open
from tests.support import profiles, scheduling
from tests.support.java_classes import QUICK_COMPILER, java_options
from tests.support.kafka_cluster import KafkaCluster
from tests.support.prepared import prepared
from tests.support.processes import free_port, wait_until
from tests.support.secured_kafka import SecuredKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPOSITORY = Path(__file__).parent.parent

profiles.load()

# For every Kafka and Spark that tests or their commands start.
os.environ.setdefault("JAVA_TOOL_OPTIONS", f"{QUICK_COMPILER} {java_options('kafka')}")
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_name, java_options("spark"))

# Each command that a test starts would compile all of Penstock, a second of CPU.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell has what it runs in the background ignore SIGINT, which children inherit: they are sent it here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make nightly` takes the other one."""
    parser.addoption("--event-loop", choices=["uvloop", "asyncio"], default="uvloop", help="of tests/contract")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end. To look through them for garbage took a sixth of the CPU of the unit tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _processes_are_prepared() -> Iterator[None]:
    with prepared(True):
        yield


@pytest.fixture
def started_from_scratch() -> Iterator[None]:
    """For tests that look at what the system shows of a process: its command line, its memory."""
    with prepared(False):
        yield


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A real Kafka on a free port: `.bootstrap`, `.port`. Other tests use it at the same time: take names of topics and
    instances from `topic_name`."""
    shared = getattr(request.config, "workerinput", {}).get(_KAFKA_PORT)
    folder = tmp_path_factory.mktemp("kafka")
    if shared is not None:
        wait_until("the Kafka that another process has started serves", lambda: is_open(shared), 300.0)
        yield EmbeddedKafka(folder, port=shared)
    else:
        with _kafka(folder) as own:
            yield own


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """One for a test that stops it, asks for its process, or counts what is in it."""
    with _kafka(tmp_path / "kafka") as own:
        yield own


@pytest.fixture(scope="module")
def kafka_of_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One for the tests of a file."""
    with _kafka(tmp_path_factory.mktemp("kafka")) as own:
        yield own


_KAFKA_PORT = "kafka_port"
_HEAP = "640m"
_RINGS_WITH_KAFKA = {"integration", "system", "browser", "cluster"}
_shared_ends = contextlib.ExitStack()  # in the process that starts others: the one broker that all of them use
#: On a busy machine a broker may hear nothing of itself for more than the 4 s after which an embedded one is fenced.
#: For half a minute then, no group has a coordinator and no event is stored.
_PATIENT = {"broker.session.timeout.ms": "60000"}


def _kafka(folder: Path) -> EmbeddedKafka:
    return EmbeddedKafka(folder, port=free_port(), heap=_HEAP, jars_root=_REPOSITORY / ".penstock" / "kafka")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start one Kafka for all processes of a run: a start and the first minutes of each would take 20 s of CPU."""
    if any(_RINGS_WITH_KAFKA & set(Path(where.partition("::")[0]).parts) for where in node.config.args):
        node.workerinput[_KAFKA_PORT] = _shared_port()


@functools.cache
def _shared_port() -> int:
    folder = Path(tempfile.mkdtemp(prefix="penstock-tests-"))
    _shared_ends.callback(shutil.rmtree, folder, ignore_errors=True)
    shared = KafkaCluster(folder, brokers=1, heap=_HEAP, also=lambda _: _PATIENT)
    shared.spawn()
    _shared_ends.callback(shared.stop)
    return int(shared.direct.rpartition(":")[2])


def pytest_unconfigure() -> None:
    """Stop it."""
    _shared_ends.close()


_of_group: dict[str, KafkaCluster] = {}  # by fixture: those that run, for the files of a group


def _started(name: str, make: Callable[[], KafkaCluster]) -> KafkaCluster:
    if name not in _of_group:
        _of_group[name] = make().__enter__()
    return _of_group[name]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> KafkaCluster:
    """Three brokers behind proxies, shared by a group; each test finds them whole, whatever the last one broke."""
    brokers = _started("cluster", lambda: KafkaCluster(tmp_path_factory.mktemp("cluster")))
    brokers.heal()
    return brokers


@pytest.fixture
def proxied(tmp_path_factory: pytest.TempPathFactory) -> KafkaCluster:
    """One broker behind a proxy, likewise: three take as much CPU as all that uses them."""
    brokers = _started("proxied", lambda: KafkaCluster(tmp_path_factory.mktemp("proxied"), brokers=1))
    brokers.heal()
    return brokers


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], SecuredKafka]:
    """Gives the one broker with TLS, SASL and ACLs of a group; its files set the users and rules that they need."""

    def start() -> SecuredKafka:
        secured = _started("secured_kafka", lambda: SecuredKafka(tmp_path_factory.mktemp("secured")))
        assert isinstance(secured, SecuredKafka)
        return secured

    return start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Three brokers take a tenth of a processor at rest: they end with the last test of their group."""
    try:
        return (yield)
    finally:
        if nextitem is None or scheduling.group_of(nextitem.path) != scheduling.group_of(item.path):
            while _of_group:
                _of_group.popitem()[1].stop()


@pytest.fixture(scope="session")
def topic_name() -> Callable[[], str]:
    """Gives topic names that were never used before."""
    run, numbers = uuid.uuid4().hex[:8], itertools.count(1)
    return lambda: f"t-{run}-{next(numbers)}"


@pytest.fixture(scope="session")
def make_topic(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> Callable[..., str]:
    """`make_topic(partitions=1, **config)` creates a topic with a new name, waits until it is there, gives the name.

    Config names are written with `_` for `.`: `make_topic(4, max_message_bytes=2_000_000)`.
    """
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    def make(partitions: int = 1, **config: object) -> str:
        name = topic_name()
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        created = admin.create_topics([NewTopic(name, partitions, 1, config=settings)], operation_timeout=120)
        created[name].result(180)
        return name

    return make


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`: one process for each group, and for the tests of any other file. Not `loadgroup`: xdist
    3.8 writes the group where pytest 9.2 does not read it, and says nothing."""
    from xdist.scheduler import LoadFileScheduling

    class Groups(LoadFileScheduling):  # type: ignore[misc]
        """The tests of a group are one unit of work."""

        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return scheduling.group_of(Path(file)) or file

    return Groups(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups first. PySpark closes none of the sockets that results come by; that is held against our own code only."""
    items.sort(key=lambda item: scheduling.order(item.path))
    for item in items:
        fixtures = frozenset(getattr(item, "fixturenames", ()))
        if (why := scheduling.misplaced(item.path, fixtures)) is not None:
            raise pytest.UsageError(why)
        if not {"spark", "engine"}.isdisjoint(fixtures):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A Spark session on two cores of this machine, with the Kafka connector and what PENSTOCK_SPARK_JARS has.

    A session takes 10 s to start, and minutes on a busy machine: everything that needs one shares it, stops what it
    starts in it (streaming queries) and never stops it.
    """
    from analytics.spark.session import NO_GENERATED_CODE, SparkOptions, spark_session
    from app.operations.spark_jars import jar_places

    jars = tuple(jar_places(root=_REPOSITORY / ".penstock" / "spark"))
    # Generated code would take a quarter of the time; jobs of other processes run with it.
    options = SparkOptions(
        app_name="tests", master="local[2]", jars=jars, shuffle_partitions=2, progress=False, settings=NO_GENERATED_CODE
    )
    with spark_session(options) as session:
        yield session
