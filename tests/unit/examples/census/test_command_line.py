"""The command line of the census, without Kafka and Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.census.__main__ import main
from tests.support.processes import REPOSITORY

CENSUS = REPOSITORY / "examples" / "census"
#: Of kafka-scale's command line, with a value where one is needed.
FLAGS = {
    "years": "2018,2019", "months": "*", "kafka": "127.0.0.1:1", "chunks": "3", "dry-run": None, "write-to": "null",
    "compute-topic-partitions": "10", "compute-topic-replfactor": "3", "from-file": None, "topic": "compute,results",
    "verbose": None, "results-port": "8888", "delay": "5", "with-metrics": None, "metrics-port": "9123",
    "version": None, "no-shutdown-reader": None, "force": None,
}  # fmt: skip


@pytest.mark.parametrize("command", ["read", "compute", "results", "topiclist", "offsets", "rmtopics"])
def test_every_flag_of_kafka_scale_comes_before_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--{name}={value}" if value else f"--{name}" for name, value in FLAGS.items()]
    assert main([flag for flag in flags if flag not in ("--version", "--from-file")] + [command]) == 0
    output = capsys.readouterr().out
    for line in ("kafka: 127.0.0.1:1", "chunks: 3", "no shutdown reader: True", "compute topic replfactor: 3"):
        assert f"  {line}\n" in output
    assert ("jan18pub.dat.gz" in output) is (command == "read")


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("penstock ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["read"], "--years and --months"),
        (["read", "--years", "x", "--months", "jan"], "not valid"),
        (["read", "--years", "2019", "--months", "mai"], "not valid"),
        (["read", "--from-file", "a.gz"], "not valid"),
        (["read", "--years", "2018,2019", "--from-file", "a.gz"], "one year"),
        (["offsets"], "--topic is empty"),
        (["rmtopics", "--topic", "compute"], "--force"),
    ],
)
def test_wrong_usage_is_an_error(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_generated_files_are_not_replaced_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--years", "2019", "--months", "jan", "--lines", "23", "--output-dir", str(tmp_path)]
    assert main(command) == 0
    path = tmp_path / "2019" / "jan19pub.dat.gz"
    assert capsys.readouterr().out == f"{path}\n"
    content = path.read_bytes()
    assert main([*command, "--lines", "5"]) == 2
    assert path.read_bytes() == content
    assert main([*command, "--lines", "5", "--force"]) == 0
    assert path.read_bytes() != content


def test_readme_has_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: python -m examples.census COMMAND [OPTIONS]\n\nCount")
    readme = (CENSUS / "README.md").read_text()
    flags = set(re.findall(r"--[a-z-]+", text)) - {"--help"}
    assert {f"--{name}" for name in FLAGS} <= flags
    assert [flag for flag in sorted(flags) if flag not in readme] == []


def test_example_stays_small() -> None:
    """kafka-scale has 1,103 lines of Go."""
    assert sum(len(path.read_text().splitlines()) for path in CENSUS.rglob("*.py")) <= 1_300
