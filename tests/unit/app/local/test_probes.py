"""What `penstock up` reads of its resources."""

from __future__ import annotations

import json
from pathlib import Path

from app.local.probes import resources_in, subscriptions_by_channel


def test_up_sees_the_resources_that_the_controller_sees(tmp_path: Path) -> None:
    """In folders, in JSON, in files with capital letters; `on` is a name."""
    (tmp_path / "shop").mkdir()
    head = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}
    (tmp_path / "shop" / "a.json").write_text(json.dumps({**head, "metadata": {"name": "json"}}))
    (tmp_path / "B.YAML").write_text(f"apiVersion: {head['apiVersion']}\nkind: KafkaChannel\nmetadata: {{name: on}}\n")
    (tmp_path / "bad.yaml").write_text("kind: [")
    assert subscriptions_by_channel(resources_in(tmp_path)) == {"default/json": 0, "default/on": 0}
