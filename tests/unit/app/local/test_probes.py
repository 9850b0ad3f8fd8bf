"""What `penstock up` reads of its resources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.local.probes import (
    former_address,
    of_readyz,
    of_subscribers,
    resources_in,
    subscriptions_by_channel,
)


def test_up_sees_the_resources_that_the_controller_sees(tmp_path: Path) -> None:
    """In folders, in JSON, in files with capital letters; `on` is a name."""
    (tmp_path / "shop").mkdir()
    head = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}
    (tmp_path / "shop" / "a.json").write_text(json.dumps({**head, "metadata": {"name": "json"}}))
    (tmp_path / "B.YAML").write_text(f"apiVersion: {head['apiVersion']}\nkind: KafkaChannel\nmetadata: {{name: on}}\n")
    (tmp_path / "bad.yaml").write_text("kind: [")
    assert subscriptions_by_channel(resources_in(tmp_path)) == {"default/json": 0, "default/on": 0}


def test_up_waits_until_what_was_edited_while_nothing_ran_is_served(tmp_path: Path) -> None:
    """The worker delivers to the former address until the controller has read the file."""
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    (files / "good.yaml").write_text(
        "apiVersion: messaging.knative.dev/v1\nkind: Subscription\nmetadata: {name: good}\nspec:\n"
        "  channel: {apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, name: c}\n"
        "  subscriber: {uri: 'http://127.0.0.1:2/good'}\n"
    )
    resources = resources_in(files)
    assert former_address(state, resources) is None, "it has no status yet"
    (state / "Subscription").mkdir(parents=True)
    for name, port in (("good", 1), ("good.other", 3)):
        (state / "Subscription" / f"default.{name}.json").write_text(
            json.dumps({
                "metadata": {"namespace": "default", "name": name},
                "status": {"physicalSubscription": {"subscriberUri": f"http://127.0.0.1:{port}/good"}},
            })
        )  # fmt: skip
    assert former_address(state, resources) == "Subscription default/good is still delivered to 127.0.0.1:1"
    path = state / "Subscription" / "default.good.json"
    path.write_text(path.read_text().replace(":1/", ":2/"))
    assert former_address(state, resources) is None


_READY = {"status": "ready", "contract": True, "producer": True, "draining": False, "kafka": "up"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"contract": False}, "the worker has not read its resources in Kafka yet"),
        ({"contract": False, "producer": False}, "the worker has not connected to Kafka yet"),
        ({"secrets": False}, "the worker has not tried the Secrets of the brokers yet"),
        ({"draining": True}, "the worker is stopping"),
        ({"contract": False, "problem": "a newer one"}, "the worker cannot read its resources in Kafka: a newer one"),
    ],
)
def test_wait_for_the_worker_is_a_sentence(fields: dict[str, object], says: str) -> None:
    assert of_readyz(503, json.dumps({**_READY, **fields, "status": "not ready"})) == says


def test_worker_that_answers_something_else() -> None:
    assert of_readyz(500, "<html>") == "the worker is not ready (500)"


def test_wait_for_subscriptions_names_them(tmp_path: Path) -> None:
    (tmp_path / "Trigger").mkdir()
    (tmp_path / "Trigger" / "other.json").write_text("{")
    (tmp_path / "Trigger" / "default.good.json").write_text(
        json.dumps({"metadata": {"namespace": "default", "name": "good", "uid": "u-1"}, "status": {}})
    )
    first = {"uid": "u-1", "ready": "Unknown", "message": "partitions [0] have no owner"}
    second = {"uid": "u-2", "ready": "Unknown", "message": ""}
    assert of_subscribers("d/c", [first], 1, tmp_path) == (
        "Trigger default/good is not ready: partitions [0] have no owner"
    )
    assert of_subscribers("d/c", [second], 1, tmp_path) == (
        "a subscription of d/c is not ready: no worker has reported it yet"
    )
    assert of_subscribers("d/c", [{**first, "ready": "True"}], 2, tmp_path) == "d/c has 1 of 2 subscriptions"
    assert of_subscribers("d/c", [{**first, "ready": "True"}], 1, tmp_path) is None
