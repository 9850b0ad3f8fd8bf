"""The sender and the subscriber of examples/python with a real worker: stored, delivered, printed once."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.processes import REPOSITORY, Child, Worker, free_port, wait_until

pytestmark = pytest.mark.system

_EXAMPLES = REPOSITORY / "examples" / "python"
_LIMIT_S = 180
_RESOURCES = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata: {name: examples, namespace: test}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: python, namespace: test}
spec:
  channel: {apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, name: examples}
  subscriber: {uri: "http://127.0.0.1:%d/"}
"""


def _send(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(_EXAMPLES / "sender.py"), url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)


def _post(port: int, headers: dict[str, str], body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LIMIT_S)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_order_goes_from_the_sender_to_the_subscriber(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    port = free_port()
    resources = tmp_path / "resources"
    resources.mkdir()
    (resources / "all.yaml").write_text(_RESOURCES % port)
    settings = {"PENSTOCK_INSTANCE": "examples", "PENSTOCK_STATE_DIR": str(tmp_path / "state")}
    with (
        Child("subscriber", [sys.executable, str(_EXAMPLES / "subscriber.py"), str(port)], tmp_path) as subscriber,
        Worker("all", kafka.bootstrap, tmp_path, resources, settings) as worker,
    ):
        wait_until("it listens", lambda: "listening" in subscriber.output(), _LIMIT_S)
        worker.wait_ready().wait_subscribers("examples", 1)
        sent = _send(worker.url("examples"))
        assert sent.returncode == 0, sent.stderr
        event_id, _, said = sent.stdout.strip().partition(" ")
        assert said == "stored"
        expected = f"order.placed {event_id} {{'customer': 'customer-7', 'amount': 12.5}}"
        wait_until("it is printed", lambda: expected in subscriber.output(), _LIMIT_S)
        wrong = _send(worker.url("none"))
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert "answered 404" in wrong.stderr
        assert "request 1." in wrong.stderr, "it is not sent again"
        again = {"ce-specversion": "1.0", "ce-id": event_id, "ce-source": "/shop", "ce-type": "order.placed"}
        assert _post(port, {**again, "content-type": "application/json"}, b"{}") == 204
        assert _post(port, {"ce-id": "no event"}, b"") == 400
        assert subscriber.output().count(event_id) == 1
        subscriber.process.send_signal(signal.SIGINT)
        assert subscriber.wait(_LIMIT_S) == 0
