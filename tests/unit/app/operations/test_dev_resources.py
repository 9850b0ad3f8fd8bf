"""What `penstock dev` writes is valid, and says what the handlers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from app.operations.dev_resources import MARK, resources
from app.settings import load_settings
from app.worker.controller_config import controller_config
from controller.validation import validate

_HANDLERS: list[dict[str, Any]] = [
    {"name": "bill-order", "filter": "type = 'order.created'", "retry": 5},
    {"name": "audit", "filter": None, "retry": 0},
]


def test_each_handler_is_a_trigger_of_the_broker(tmp_path: Path) -> None:
    text = resources(_HANDLERS, "shop/main", "http://127.0.0.1:1", own_broker=True)
    assert text.startswith(MARK)
    broker, bill, audit = yaml.safe_load_all(text)
    assert (broker["kind"], broker["metadata"]["namespace"], broker["metadata"]["name"]) == ("Broker", "shop", "main")
    assert bill["spec"] == {
        "broker": "main",
        "subscriber": {"uri": "http://127.0.0.1:1/bill-order"},
        "filters": [{"cesql": "type = 'order.created'"}],
        "delivery": {"retry": 5, "backoffPolicy": "exponential", "backoffDelay": "PT0.5S"},
    }
    assert "filters" not in audit["spec"]
    (tmp_path / "dev.yaml").write_text(text)
    result = validate(controller_config(load_settings(), {}, tmp_path))
    assert result.problems == ()


def test_broker_that_is_there_is_not_written() -> None:
    kinds = [
        document["kind"] for document in yaml.safe_load_all(resources(_HANDLERS, "a/b", "http://h", own_broker=False))
    ]
    assert kinds == ["Trigger", "Trigger"]
