"""`penstock explain` with Triggers from YAML files, without a Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import cli
from knative.errors import UsageError
from tests.support.filter_bombs import MEMORY_BOMB, TIME_BOMB

_RESOURCES = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: shop
  annotations:
    eventing.knative.dev/broker.class: Kafka
    kafka.eventing.knative.dev/delivery.order: ordered
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders, namespace: NAMESPACE}
spec:
  broker: shop
  filters: [{cesql: "int(amount) > 100"}]
  subscriber: {uri: "http://127.0.0.1:1/"}
"""
_EVENT = '{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created", "amount": AMOUNT}'


@pytest.fixture
def resources(tmp_path: Path) -> Path:
    folder = tmp_path / "resources"
    folder.mkdir()
    (folder / "shop.yaml").write_text(_RESOURCES.replace("NAMESPACE", "default"))
    return folder


def _explain(resources: Path, trigger: str, amount: int, *more: str) -> tuple[int, str]:
    command = ["explain", trigger, "--event", "-", "--resources", str(resources), *more]
    done = CliRunner().invoke(cli, command, input=_EVENT.replace("AMOUNT", str(amount)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


@pytest.mark.parametrize("name", ["orders", "default/orders"])
def test_event_that_matches_ends_with_0_and_any_other_with_1(resources: Path, name: str) -> None:
    code, output = _explain(resources, name, 120)
    assert (code, output.splitlines()[0]) == (0, "default/orders matches: cesql: int(amount) > 100 (true)")
    code, output = _explain(resources, name, 90)
    assert (code, output.splitlines()[0]) == (1, "default/orders does not match: cesql: int(amount) > 100 (false)")


@pytest.mark.parametrize("bomb", [MEMORY_BOMB, TIME_BOMB, {"not": TIME_BOMB}], ids=["memory", "time", "not"])
def test_event_that_exceeds_a_limit_of_the_filter_does_not_match(resources: Path, bomb: dict[str, Any]) -> None:
    text = _RESOURCES.replace("NAMESPACE", "default").replace('{cesql: "int(amount) > 100"}', json.dumps(bomb))
    (resources / "shop.yaml").write_text(text)
    event = _EVENT.replace('"amount": AMOUNT', '"a": ' + json.dumps("a" * 60_000))
    command = ["explain", "orders", "--event", "-", "--resources", str(resources)]
    done = CliRunner().invoke(cli, command, input=event)
    assert done.exit_code == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith("default/orders does not match: ")
    assert "characters" in first
    assert len(done.stdout) < 1_000_000


def test_json_has_the_order_of_the_broker(resources: Path) -> None:
    code, output = _explain(resources, "orders", 120, "-o", "json")
    explanation = json.loads(output)
    assert (code, explanation["matches"], explanation["order"]) == (0, True, "ordered")


def test_unknown_or_ambiguous_name_is_an_error(resources: Path) -> None:
    with pytest.raises(
        UsageError, match=r"There is no trigger nope in .*; known: default/orders\. Write NAMESPACE/NAME"
    ):
        _explain(resources, "nope", 1)
    (resources / "other.yaml").write_text(_RESOURCES.replace("NAMESPACE", "other"))
    with pytest.raises(UsageError, match=r"2 triggers have the name orders in .*: default/orders, other/orders"):
        _explain(resources, "orders", 1)


def test_file_with_a_problem_is_named_with_its_line_and_field(resources: Path) -> None:
    (resources / "shop.yaml").write_text(_RESOURCES.replace("NAMESPACE", "default").replace("> 100", ">"))
    with pytest.raises(UsageError, match=r"shop\.yaml:\d+: spec\.filters.*cesql is not a valid expression: at char"):
        _explain(resources, "orders", 1)


def test_file_that_is_missing_is_named(resources: Path) -> None:
    done = CliRunner().invoke(cli, ["explain", "orders", "--event", "no-such.json", "--resources", str(resources)])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == (
        "no-such.json cannot be read: No such file or directory. Name a file that this user can read; - means "
        "standard input."
    )
