"""What `penstock up` reads of its resources."""

from __future__ import annotations

import json
from pathlib import Path

from app.local.probes import former_address, resources_in, subscriptions_by_channel


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
    assert former_address(state, resources) == "", "it has no status yet"
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
    assert former_address(state, resources) == ""
