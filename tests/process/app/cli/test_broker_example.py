"""`examples/broker`: its resources, its event and its subscribers."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli

_EXAMPLE = Path(__file__).parents[4] / "examples" / "broker"


def test_resources_are_valid() -> None:
    done = CliRunner().invoke(cli, ["validate", str(_EXAMPLE), "--strict"])
    assert done.exit_code == 0
    assert "Broker 1, ConfigMap 1, Trigger 6: 0 errors, 0 warnings." in done.stderr


@pytest.mark.parametrize(
    ("trigger", "code"),
    [("payment", 0), ("audit", 0), ("shipping", 1), ("mail", 1), ("invoices", 1), ("failing", 1)],
)
def test_event_passes_the_first_of_the_chain_and_audit(trigger: str, code: int) -> None:
    command = ["explain", trigger, "--event", str(_EXAMPLE / "order.event"), "--resources", str(_EXAMPLE)]
    assert CliRunner().invoke(cli, command).exit_code == code


@pytest.fixture
def subscriber() -> Iterator[str]:
    command = [sys.executable, str(_EXAMPLE / "subscriber.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        port = child.stdout.readline().rsplit(maxsplit=1)[-1]
        yield f"http://127.0.0.1:{port}"
        child.terminate()


def test_reply_is_an_event_of_the_next_type(subscriber: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "order.created", "ce-region": "eu"}
    request = urllib.request.Request(f"{subscriber}/payment", b"{}", {**headers, "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=180) as answer:
        assert answer.status == 200
        assert answer.headers["ce-type"] == "order.paid"
        assert answer.headers["ce-id"] == "1/payment"
        assert answer.headers["ce-region"] == "eu"
        assert answer.read() == b"{}"
    request = urllib.request.Request(f"{subscriber}/mail", b"", headers)
    with urllib.request.urlopen(request, timeout=180) as answer:
        assert (answer.status, answer.headers["ce-type"]) == (204, None)
