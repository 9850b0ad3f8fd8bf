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
_FOREIGN = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata:
  name: thief
  namespace: attacker
  annotations: {penstock.dev/hosts: orders-kn-channel.shop.svc.cluster.local}
"""
_RESET = """\
apiVersion: kafka.eventing.knative.dev/v1alpha1
kind: ResetOffset
metadata: {name: again}
spec:
  offset: {time: "%s"}
  ref: {apiVersion: messaging.knative.dev/v1, kind: Subscription, name: billing}
"""
_SERVED = _CHANNEL % "orders" + "---\n" + _SUBSCRIPTION % ("billing", "orders") + "---\n"


def _errors(folder: Path, *options: str) -> tuple[int, list[tuple[str, int | None, str]]]:
    done = CliRunner().invoke(cli, ["validate", str(folder), "-o", "json", *options])
    return done.exit_code, [(row["file"], row["line"], row["field"]) for row in json.loads(done.output)]


def test_good_reset_offset_has_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_SERVED + _RESET % "2026-01-01T00:00:00Z")
    assert _errors(tmp_path) == (0, [])


def test_good_directory_has_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_CHANNEL % "orders" + "---\n" + _SUBSCRIPTION % ("billing", "orders"))
    assert _errors(tmp_path) == (0, [])
    done = CliRunner().invoke(cli, ["validate", str(tmp_path)])
    assert done.output == "KafkaChannel 1, Subscription 1: 0 errors, 0 warnings.\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.yaml": "kind: ["}, ("a.yaml", 1, "")),
        ({"a.yaml": _CHANNEL % "orders" + "spec: {numPartitions: many}\n"}, ("a.yaml", 4, "spec.numPartitions")),
        ({"a.yaml": _SUBSCRIPTION % ("billing", "none")}, ("a.yaml", 1, "spec.channel.name")),
        ({"a.yaml": "\n\n" + (_CHANNEL % "o").replace("KafkaChannel", "KafkaChanel")}, ("a.yaml", 4, "kind")),
        ({"a.yaml": _CHANNEL % "orders", "b.yaml": _CHANNEL % "orders"}, ("b.yaml", 1, "metadata.name")),
        ({"a.yaml": _FOREIGN}, ("a.yaml", 6, "metadata.annotations.penstock.dev/hosts")),
        ({"a.yaml": _RESET % "earliest"}, ("a.yaml", 1, "spec.ref")),
        ({"a.yaml": _SERVED + _RESET % "2999-01-01T00:00:00Z"}, ("a.yaml", 12, "spec.offset.time")),
    ],
    ids=["YAML", "value", "no channel", "kind", "twice", "host", "no subscription", "future"],
)
def test_error_has_file_line_and_field(files: dict[str, str], expected: tuple[str, int, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, errors = _errors(tmp_path)
    assert (code, errors) == (1, [expected])


def test_both_objects_that_claim_a_host_are_reported(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(_HOSTS % name)
    assert _errors(tmp_path) == (1, [(f"{name}.yaml", 1, "metadata.annotations") for name in ("a", "b")])


_BROKER = """\
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: main, annotations: {eventing.knative.dev/broker.class: Kafka%s}}
spec: {config: {name: %s}}
"""
_CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {default.topic.partitions: '%s'}\n"
_TRIGGER = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: all}
spec: {broker: %s, subscriber: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: %s}}}
"""


@pytest.mark.parametrize("external", ["", ", kafka.eventing.knative.dev/external.topic: theirs"])
def test_good_broker_needs_neither_kafka_nor_ingress(external: str, tmp_path: Path) -> None:
    texts = _BROKER % (external, "c"), _CONFIG % "3", _TRIGGER % ("main", "main")
    (tmp_path / "a.yaml").write_text("---\n".join(texts))
    assert _errors(tmp_path) == (0, [])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((_BROKER % ("", "d"), _CONFIG % "3"), ("a.yaml", 1, "spec.config")),
        ((_BROKER % ("", "c"), _CONFIG % "0"), ("a.yaml", 1, "spec.config")),
        ((_BROKER % ("", "c"), _CONFIG % "3", _TRIGGER % ("other", "main")), ("a.yaml", 11, "spec.broker")),
        ((_BROKER % ("", "c"), _CONFIG % "3", _TRIGGER % ("main", "other")), ("a.yaml", 11, "spec.subscriber")),
    ],
    ids=["no ConfigMap", "ConfigMap", "no broker", "subscriber"],
)
def test_error_of_a_broker_or_trigger(texts: tuple[str, ...], expected: tuple[str, int, str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join(texts))
    assert _errors(tmp_path) == (1, [expected])


def test_kind_that_is_not_served_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n")
    assert _errors(tmp_path) == (0, [("a.yaml", 2, "kind")])
    assert _errors(tmp_path, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ("{}", "a Broker without a class is not served"),
        (
            "{eventing.knative.dev/broker.class: MTChannelBasedBroker}",
            "a Broker of the class 'MTChannelBasedBroker' is not served",
        ),
    ],
    ids=["none", "another"],
)
def test_broker_without_the_class_is_one_warning_with_the_annotation(
    annotations: str, why: str, tmp_path: Path
) -> None:
    broker = (
        f"apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {{name: main, annotations: {annotations}}}\n"
    )
    (tmp_path / "a.yaml").write_text("---\n".join((broker, _TRIGGER % ("main", "main"))))
    done = CliRunner().invoke(cli, ["validate", str(tmp_path), "-o", "json"])
    (row,) = json.loads(done.output)
    assert (done.exit_code, row["level"], row["line"], row["field"]) == (0, "warning", 1, "metadata.annotations")
    assert row["object"] == "Broker default/main"
    assert row["problem"] == f"{why}; write the annotation eventing.knative.dev/broker.class: Kafka"
    assert _errors(tmp_path, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("named", "field", "why"),
    [
        ("reference: {kind: Broker, name: man}", "spec.reference", "there is no Broker default/man here"),
        ("reference: {kind: Service, name: main}", "spec.reference", "it names no channel or Broker"),
        ("broker: man", "spec.broker", "there is no Broker default/man here"),
        ("broker: man, reference: {kind: Service, name: main}", "spec.reference", "it names no channel or Broker"),
        ("source: /shop", "spec.reference", "it names no channel or Broker"),
    ],
)
def test_event_type_of_nothing_is_a_warning(named: str, field: str, why: str, tmp_path: Path) -> None:
    event_type = f"""apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {{name: paid}}
spec: {{type: paid, {named}}}
"""
    (tmp_path / "a.yaml").write_text(event_type)
    done = CliRunner().invoke(cli, ["validate", str(tmp_path), "-o", "json"])
    (row,) = json.loads(done.output)
    assert (done.exit_code, row["level"], row["field"], row["object"]) == (
        0,
        "warning",
        field,
        "EventType default/paid",
    )
    assert row["problem"].startswith(f"{why}; name a KafkaChannel or a Broker")


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["validate", str(tmp_path / "none")])
    assert "does not exist" in str(done.exception)
