"""A directory of resources checked without a Kafka: what is wrong, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli

_CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: %s}\n"
_SUBSCRIPTION = """\
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: %s}
spec:
  channel: {apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, name: %s}
  subscriber: {uri: "http://h/"}
"""
_HOSTS = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata:\n  name: %s\n  annotations: {penstock.dev/hosts: h.example}\n"  # noqa: E501


def _errors(folder: Path, *options: str) -> tuple[int, list[tuple[str, int | None, str]]]:
    done = CliRunner().invoke(cli, ["validate", str(folder), "-o", "json", *options])
    return done.exit_code, [(row["file"], row["line"], row["field"]) for row in json.loads(done.output)]


def test_a_good_directory(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_CHANNEL % "orders" + "---\n" + _SUBSCRIPTION % ("billing", "orders"))
    assert _errors(tmp_path) == (0, [])
    done = CliRunner().invoke(cli, ["validate", str(tmp_path)])
    assert done.output == "KafkaChannel 1, Subscription 1: 0 errors, 0 warnings.\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.yaml": "kind: ["}, ("a.yaml", 1, "")),
        ({"a.yaml": _CHANNEL % "orders" + "spec: {numPartitions: many}\n"}, ("a.yaml", 4, "spec.numPartitions")),
        ({"a.yaml": _SUBSCRIPTION % ("billing", "none")}, ("a.yaml", 1, "spec.channel.name")),
        ({"a.yaml": "\n\n" + (_CHANNEL % "o").replace("KafkaChannel", "KafkaChanel")}, ("a.yaml", 4, "kind")),
        ({"a.yaml": _CHANNEL % "orders", "b.yaml": _CHANNEL % "orders"}, ("b.yaml", 1, "metadata.name")),
        ({"a.yaml": _HOSTS % "a", "b.yaml": _HOSTS % "b"}, ("b.yaml", 1, "metadata.annotations")),
    ],
    ids=["YAML", "value", "no channel", "kind", "twice", "host"],
)
def test_an_error_has_file_line_and_field(files: dict[str, str], found: tuple[str, int, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, errors = _errors(tmp_path)
    assert (code, errors) == (1, [found])


def test_a_kind_that_is_not_served_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n")
    assert _errors(tmp_path) == (0, [("a.yaml", 2, "kind")])
    assert _errors(tmp_path, "--strict")[0] == 1


def test_no_such_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["validate", str(tmp_path / "none")])
    assert "does not exist" in str(done.exception)
