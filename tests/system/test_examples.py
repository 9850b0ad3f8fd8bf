"""Every example of every `--help`, run against the quickstart as `penstock up` starts it.

An example that starts what is tested elsewhere, or needs a machine that is not here, is in ELSEWHERE: it is read as the
command line reads it, and not run.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from app.cli import cli
from tests.support.commands import commands_of
from tests.support.processes import Child, free_port, wait_until
from tests.system.sending import post

_REPOSITORY = Path(__file__).parents[2]
_LIMIT_S = 240
_ROOT = typer.main.get_command(cli)
_OF_A_SHELL = frozenset("|<>&;$*~`(")

#: Beginning of an example -> why it is only read.
ELSEWHERE = {
    "penstock up": "it starts everything: test_up",
    "penstock demo": "it starts everything",
    "penstock worker": "it starts a second worker: test_cli_of_a_worker",
    "penstock kafka up": "it starts a Kafka: test_cli_kafka",
    "penstock job": "each starts a Spark: test_traffic_job, test_topology_job",
    "penstock controller --kafka": "it needs a Kubernetes API server: tests/cluster",
    "penstock controller --resources": "it needs a Kubernetes API server: tests/cluster",
    "penstock export": "it needs a Kubernetes API server: tests/cluster",
    "penstock dev": "it needs a file with handlers: test_dev",
    "penstock doctor --context": "it needs a Kubernetes API server: tests/cluster",
    "penstock send --broker": "it needs a broker: test_triggers",
    "penstock tail default/shop": "it needs a broker: test_triggers",
    "penstock explain default/": "it needs a trigger in Kafka: test_triggers",
    "penstock topology --engine graphframes": "it needs jars that are not here: test_topology_engines",
}
_ASKS = ("penstock seek", "penstock dlq redrive", "penstock remove")
#: Examples that go on until Ctrl-C -> what they print before it is sent.
ENDLESS = {
    "penstock tail": "Waiting for new events",
    "penstock tail default/quickstart --since 10m --filter type=dev.penstock.example --filter source=/shop": "Waiting",
    "penstock status -o wide --watch": "default/quickstart",
    "penstock traffic --watch": "KIND",
    "penstock lag default/picky --watch": "default/picky",
}
#: Examples that do not end with 0 -> what they end with, and what they say.
ENDS_WITH = {
    "penstock traffic --since 7d --until 1d": (1, "There are no traffic tables in .penstock/traffic."),
    "penstock topology --diff report/topology.json --fail-on warning": (
        1,
        "nothing is new, gone, or different by half or more",
    ),
    "penstock dlq redrive --subscription default/picky --rate 20/s": (1, "the answer was 500"),
    'penstock dlq redrive --channel default/quickstart --reason "answer was 500" --since 2h': (1, "redriven before 0"),
    "penstock dlq redrive --all --limit 100 --in-flight 10 --yes -o json": (1, '"redriven": 0'),
    "penstock dlq redrive --with letter.json": (1, "the answer was 500"),
    "penstock controller --once --resources my-resources": (2, "'my-resources' does not exist"),
    "penstock remove Subscription/default/old --yes": (1, "There is no Subscription/default/old"),
    "penstock remove KafkaChannel/default/old Subscription/default/old": (1, "There is no KafkaChannel/default/old"),
}


def _examples() -> Iterator[str]:
    """Lines with a `penstock` command, each once, in the order of the commands; without the words beside them."""
    in_order: dict[str, None] = {}
    commands: list[Any] = [_ROOT]
    while commands:
        command = commands.pop(0)
        commands += commands_of(command).values()
        _, _, examples = (command.help or "").partition("Examples:")
        for line in examples.splitlines():
            example = re.split(r"\s{3,}", line.strip())[0]
            if "penstock " in example and not example.startswith("export"):
                in_order[example] = None
    return iter(in_order)


def _is_elsewhere(example: str) -> bool:
    return example.startswith(tuple(ELSEWHERE))


RUN = [example for example in _examples() if not _is_elsewhere(example)]
READ = [example for example in _examples() if _is_elsewhere(example)]


@dataclass(frozen=True, slots=True)
class Quickstart:
    """A quickstart that runs, and a folder with what the examples name."""

    folder: Path
    http_port: int
    kafka_port: int

    def start(self, example: str) -> Child:
        """Start an example with these ports in the environment; in a shell, if it does more than start a command."""
        line = example.replace("localhost:8080", f"localhost:{self.http_port}")
        line = line.replace("127.0.0.1:9092", f"127.0.0.1:{self.kafka_port}")
        if line.startswith(_ASKS) and "--yes" not in line:
            line += " --yes"  # nobody answers here
        name, *words = shlex.split(line)
        plain = name == "penstock" and _OF_A_SHELL.isdisjoint(line)
        command = [sys.executable, "-m", "app.cli", *words] if plain else ["bash", "-c", line]
        env = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PENSTOCK_KAFKA": f"127.0.0.1:{self.kafka_port}",
            "PENSTOCK_HTTP_PORT": str(self.http_port),
        }
        return Child("example", command, self.folder, env)

    def run(self, example: str) -> tuple[int, str]:
        """To its end: exit code and all that it says."""
        with self.start(example) as command:
            return command.wait(_LIMIT_S), _said(command)


def _said(command: Child) -> str:
    """All that it has printed so far."""
    return command.output() + command.log.read_text()


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quickstart]:
    """Up, with twenty events sent, a dead letter and an earlier report."""
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "examples").symlink_to(_REPOSITORY / "examples")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    attributes = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}
    (folder / "event.json").write_text(json.dumps(attributes))
    lines = [f"ce-{name}: {text}\r\n" for name, text in attributes.items()]
    (folder / "request.txt").write_text("POST / HTTP/1.1\r\n" + "".join(lines) + "\r\n")
    (folder / ".penstock").symlink_to(_REPOSITORY / ".penstock")  # the jars of Kafka
    http_port, admin_port, subscriber_port, kafka_port = (free_port() for _ in range(4))
    options = {
        "--http-port": http_port, "--admin-port": admin_port, "--subscriber-port": subscriber_port,
        "--kafka-port": kafka_port, "--data": folder / "data", "--home": folder / "home", "--heap": "256m",
        "--timeout": _LIMIT_S,
    }  # fmt: skip
    words = [str(word) for pair in options.items() for word in pair]
    with Child("up", [sys.executable, "-m", "app.cli", "up", *words], folder) as up:
        wait_until("Penstock is up", lambda: "Penstock is up" in _said(up) or not up.running, _LIMIT_S)
        assert up.running, up.tail()
        stack = Quickstart(folder, http_port, kafka_port)
        for command in (
            "penstock send --count 20 --source /shop",
            f"penstock tail --dlq --from-beginning --count 1 --timeout {_LIMIT_S}",
            "penstock topology --out report",
        ):
            code, said = stack.run(command)
            assert code == 0, said
        yield stack
        up.process.send_signal(signal.SIGINT)
        assert up.wait(_LIMIT_S) == 0


@pytest.mark.parametrize("example", RUN)
def test_example_does_what_it_says(quickstart: Quickstart, example: str) -> None:
    if example in ENDLESS:
        _until_ctrl_c(quickstart, example)
        return
    code, words = ENDS_WITH.get(example, (0, ""))
    ended, said = quickstart.run(example)
    assert ended == code, said
    assert words in said
    assert "Traceback" not in said


def _until_ctrl_c(quickstart: Quickstart, example: str) -> None:
    """It says that it waits, or shows what it watches, and ends well with Ctrl-C."""
    with quickstart.start(example) as command:

        def says_so() -> bool:
            assert post(quickstart.http_port, "/channels/default/quickstart", "now").status == 202  # for what is recent
            return ENDLESS[example] in _said(command) or not command.running

        wait_until(f"{example}: {ENDLESS[example]}", says_so, _LIMIT_S, poll_s=1)
        assert command.running, _said(command)
        command.process.send_signal(signal.SIGINT)
        assert command.wait(_LIMIT_S) == 0, _said(command)
        assert "Traceback" not in _said(command)


@pytest.mark.parametrize("example", READ)
def test_example_that_runs_elsewhere_is_understood(example: str, tmp_path: Path) -> None:
    """Its options are there, and take these values."""
    for part in example.split("|"):
        words = shlex.split(part.replace("2>/dev/null", ""))
        if words[0] == "penstock":
            _read(_ROOT, words[0], words[1:])


def _read(command: Any, name: str, words: list[str]) -> None:
    context = command.make_context(name, words)
    left = [*context._protected_args, *context.args]
    if hasattr(command, "resolve_command") and (left or not command.invoke_without_command):
        name, inner, rest = command.resolve_command(context, left)
        _read(inner, name, rest)


def test_tables_name_examples_that_there_are() -> None:
    """So that none of them is forgotten when an example changes."""
    assert {*ENDLESS, *ENDS_WITH} <= {*RUN}
    assert all(any(example.startswith(beginning) for example in READ) for beginning in ELSEWHERE)
    assert len(RUN) > 30
