"""`penstock dev` beside a real worker: a marked function gets the events of its filter, and its replies come back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from app.local.packaged import python_module
from penstock import Client, event
from penstock.events import to_message
from tests.support.processes import Child, Worker, wait_until

pytestmark = pytest.mark.system

_LIMIT_S = 180
_APP = """
from penstock import on

@on("type = 'order.created'")
def price(event):
    print("price", event.get_id(), flush=True)
    return {"id": "r", "type": "order.priced", "source": "/prices", "data": {"amount": 12}}

@on("type LIKE '%.priced'")
def mail(event):
    print("mail", event.get_id(), event.get_data(), flush=True)
"""


def test_handlers_get_their_events_until_dev_ends(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    resources = tmp_path / "resources"
    resources.mkdir()
    (tmp_path / "orders.py").write_text(_APP)
    settings = {"PENSTOCK_INSTANCE": "dev", "PENSTOCK_STATE_DIR": str(tmp_path / "state")}
    command = python_module("app.cli", "dev", str(tmp_path / "orders.py"), "--resources", str(resources))
    with Worker("all", kafka.bootstrap, tmp_path, resources, settings) as worker:
        worker.wait_ready()
        with Child("dev", command, tmp_path) as dev:
            url = worker.url("none").partition("/channels")[0]
            wait_until("it is written", (resources / "dev-orders.yaml").exists, _LIMIT_S)
            wait_until("the broker is served", lambda: _is_served(url), _LIMIT_S)
            # A Trigger gets events from its addition on, which may be some seconds after its broker is served.
            handled = "mail r {'amount': 12}"
            wait_until("both are handled", lambda: _is_served(url) and handled in dev.output(), _LIMIT_S)
            assert "price warm" in dev.output()
            dev.process.send_signal(signal.SIGINT)
            assert dev.wait(_LIMIT_S) == 0
        assert not (resources / "dev-orders.yaml").exists()
        wait_until("it is not served any more", lambda: _status(url) == 503, _LIMIT_S)


def _status(url: str) -> int:
    with Client.broker(url, "default/dev") as client:
        return client.post(*to_message(event(id="warm", type="order.created", source="/shop"))).status


def _is_served(url: str) -> bool:
    return _status(url) == 202
