"""The wheel outside the repository: installed without extras, and with analytics, run from folders that are empty."""

from __future__ import annotations

import json
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.local.kafka.jars import ensure_jars, libs_folder
from app.settings.extras import MODULES
from tests.support.processes import REPOSITORY, free_port, wait_until
from tests.support.wheel import Environment, build_wheel

_PACKAGES = ("agents", "analytics", "app", "controller", "knative", "penstock", "tables", "web")
_START_LIMIT_S = 120.0
_IMPORT_ALL = """
import importlib, pkgutil, sys
for top in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if module.name.endswith(".__main__"):
            continue  # it would run
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as problem:
            print(module.name, problem.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install penstock`."""
    return Environment(tmp_path_factory.mktemp("base"), wheel)


@pytest.fixture(scope="module")
def analytics(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install 'penstock[analytics]'`."""
    return Environment(tmp_path_factory.mktemp("analytics"), wheel, ("analytics",))


class Up:
    """`penstock up` in an empty folder; only the jars are there already, so that none are downloaded."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.folder = folder
        self.said = folder.parent / "said"
        jars = ensure_jars(REPOSITORY / ".penstock" / "kafka")
        self.jars = folder / ".penstock" / "kafka" / jars.name
        self.jars.parent.mkdir(parents=True)
        self.jars.symlink_to(jars)
        ports: set[int] = set()
        while len(ports) < 4:
            ports.add(free_port())
        http, admin, subscriber, kafka = map(str, sorted(ports))
        self.server, self.kafka = f"localhost:{http}", f"127.0.0.1:{kafka}"
        options = {"--http-port": http, "--admin-port": admin, "--subscriber-port": subscriber, "--kafka-port": kafka}
        command = environment.command("up", "--heap", "256m", *(part for pair in options.items() for part in pair))
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment.variables(), stdout=said, stderr=subprocess.STDOUT
            )

    def wait_ready(self) -> None:
        """Until it says so."""
        wait_until(
            "Penstock is up",
            lambda: "Penstock is up" in self.said.read_text() or self.process.poll() is not None,
            _START_LIMIT_S,
        )
        assert self.process.poll() is None, self.said.read_text()


@pytest.fixture(scope="module")
def up(base: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """It runs, without any extra."""
    folder = tmp_path_factory.mktemp("outside") / "empty"
    folder.mkdir()
    running = Up(base, folder)
    try:
        running.wait_ready()
        yield running
    finally:
        running.process.send_signal(signal.SIGINT)
        try:
            running.process.wait(180)
        finally:
            running.process.kill()
            running.process.wait()


def test_everything_beside_the_modules_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {str(file.relative_to(REPOSITORY)) for package in _PACKAGES for file in _files(REPOSITORY / package)}
    examples = (file for file in _files(REPOSITORY / "examples") if "census" not in file.parts)
    expected |= {f"app/{file.relative_to(REPOSITORY)}" for file in examples}
    pages = (
        page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name not in ("decisions", "contributing")
    )
    expected |= {f"app/{page.relative_to(REPOSITORY)}" for page in pages}
    manual = (REPOSITORY / "man" / "man1").glob("*.1")
    expected |= {
        f"{wheel.name.removesuffix('-py3-none-any.whl')}.data/data/share/man/man1/{page.name}" for page in manual
    }
    assert names == expected


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


def test_base_is_without_extras(base: Environment, analytics: Environment) -> None:
    assert not {"pyspark", "numpy", "opentelemetry-sdk"} & base.requirements
    assert {"pyspark", "numpy", "grpcio"} <= analytics.requirements


def test_modules_fail_to_import_for_nothing_but_an_extra(base: Environment, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(base.python), "-c", _IMPORT_ALL, *_PACKAGES], cwd=tmp_path, env=base.variables(),
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    failed = dict(line.split() for line in done.stdout.splitlines())
    optional = {name.partition(".")[0] for modules in MODULES.values() for name in modules}
    assert failed
    assert {missing.partition(".")[0] for missing in failed.values()} <= optional
    assert {name for name in failed if name.startswith(("app.cli", "app.worker", "agents", "web", "controller"))} == {
        "app.cli.demos.console",
        "app.cli.demos.topology",
    }


_NEEDY = [
    ("topology", "numpy, pyarrow, which are not installed. Run `pip install 'penstock[report]'`."),
    ("job topology", "numpy, pyarrow, graphframes, pandas, py4j, pyspark, which are not installed"),
    ("job traffic", "pyarrow, pyspark, which are not installed. Run `pip install 'penstock[analytics]'`."),
]


@pytest.mark.parametrize(("command", "words"), _NEEDY, ids=[command for command, _ in _NEEDY])
def test_command_without_its_extra_is_one_sentence(base: Environment, tmp_path: Path, command: str, words: str) -> None:
    done = base.run(tmp_path, *command.split(), PENSTOCK_KAFKA="127.0.0.1:1")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
    assert base.run(tmp_path, *command.split(), "--help").returncode == 0


def test_worker_without_opentelemetry_says_how_to_get_it(base: Environment, tmp_path: Path) -> None:
    done = base.run(tmp_path, "worker", PENSTOCK_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert done.returncode == 2
    assert done.stderr.startswith("PENSTOCK_OTLP_ENDPOINT needs opentelemetry.sdk, ")
    assert done.stderr.endswith("which are not installed. Run `pip install 'penstock[otel]'`.\n")


def test_worker_with_the_extra_for_traces_starts(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As far as a worker comes without a Kafka."""
    otel = Environment(tmp_path_factory.mktemp("otel"), wheel, ("otel",))
    assert not {"pyspark", "numpy"} & otel.requirements
    ports = {"PENSTOCK_HTTP_PORT": str(free_port()), "PENSTOCK_ADMIN_PORT": "0"}
    traces = {"PENSTOCK_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    done = otel.run(tmp_path, "worker", PENSTOCK_KAFKA="127.0.0.1:1", PENSTOCK_KAFKA_WAIT_S="1", **ports, **traces)
    assert done.returncode == 3, done.stderr
    assert "not installed" not in done.stdout + done.stderr


def test_packages_of_the_user_are_not_taken_for_ours(base: Environment, tmp_path: Path) -> None:
    for package in set(_PACKAGES) - {"penstock"}:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    assert base.run(tmp_path, "--version", PYTHONPATH=".").stdout.startswith("penstock ")
    done = base.run(tmp_path, "validate", str(REPOSITORY / "examples" / "quickstart"), PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    ports = {"PENSTOCK_HTTP_PORT": str(free_port()), "PENSTOCK_ADMIN_PORT": "0"}
    kafka = {"PENSTOCK_KAFKA": "127.0.0.1:1", "PENSTOCK_KAFKA_WAIT_S": "1"}
    done = base.run(tmp_path, "worker", PYTHONPATH=".", **kafka, **ports)
    assert done.returncode == 3, done.stderr
    assert "the wrong package" not in done.stdout + done.stderr
    assert "127.0.0.1:1" in done.stderr


def test_up_serves_the_packaged_quickstart(base: Environment, up: Up) -> None:
    assert {path.name for path in up.jars.parent.iterdir() if path.name.startswith("libs-")} == {
        libs_folder(up.jars.parent).name
    }
    assert base.run(up.folder, "validate", ".penstock/quickstart").returncode == 0
    sent = base.run(up.folder, "send", "--count", "10", "--key", "k", "--server", up.server)
    assert (sent.returncode, sent.stdout.splitlines()[-1]) == (0, "10 of 10 accepted"), sent.stderr
    received = base.run(up.folder, "tail", "--from-beginning", "--count", "10", "-o", "json", "--kafka", up.kafka)
    assert [json.loads(line)["key"] for line in received.stdout.splitlines()] == ["k"] * 10, received.stderr
    letter = base.run(
        up.folder, "tail", "--dlq", "--from-beginning", "--count", "1", "--timeout", "60", "--kafka", up.kafka
    )
    assert "/picky" in letter.stdout, letter.stderr
    status = base.run(up.folder, "status", "-o", "name", "--kafka", up.kafka)
    assert "default/quickstart" in status.stdout, status.stderr


def test_report_page_has_its_assets(analytics: Environment, up: Up, tmp_path: Path) -> None:
    done = analytics.run(
        tmp_path, "topology", "--engine", "local", "--out", "report", "--traffic", "none", "--kafka", up.kafka
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report" / "report.html").read_text()
    assert "quickstart" in page
    assert (REPOSITORY / "analytics" / "topology" / "report" / "assets" / "theme.js").read_text().strip() in page
    assert len(page) > 400_000, "the vendored scripts are in it"
