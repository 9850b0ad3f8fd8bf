"""`penstock send` against an HTTP server, and the curl that does the same."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from app.cli import cli
from penstock.client import reason_of
from tests.support.processes import REPOSITORY, free_port, penstock
from tests.support.subscriber import ScriptedSubscriber, says


@pytest.fixture
def ingress() -> Iterator[ScriptedSubscriber]:
    with ScriptedSubscriber() as server:
        yield server


def test_send_keeps_the_bytes(ingress: ScriptedSubscriber) -> None:
    ingress.script("/channels/ns/c", says(202))
    done = CliRunner().invoke(
        cli,
        ["send", "--server", ingress.url(""), "--channel", "ns/c", "--data", "[1, true, 12345678901234567890]",
         "--key", "k 1", "--id", "e", "--count", "2", "-H", "X-Request-Id: 7", "-a", "subject=ü", "-o", "json"],
    )  # fmt: skip
    assert done.exit_code == 0
    answer = json.loads(done.output)
    assert (answer["sent"], answer["accepted"]) == (2, 2)
    assert [event["id"] for event in answer["events"]] == ["e-1", "e-2"]
    request, _ = ingress.requests("/channels/ns/c")
    assert request.body == b"[1, true, 12345678901234567890]"
    assert {"id": "e-1", "partitionkey": "k%201", "subject": "%C3%BC"}.items() <= request.attributes.items()
    assert request.header("content-type") == "application/json"
    assert request.header("x-request-id") == "7"


@pytest.mark.parametrize(("status", "code"), [(202, 0), (400, 1), (413, 1), (429, 3), (503, 3)])
def test_exit_code_of_send_says_whether_to_try_again(ingress: ScriptedSubscriber, status: int, code: int) -> None:
    done = CliRunner().invoke(cli, ["send", "--url", ingress.script("/", says(status))])
    assert done.exit_code == code
    assert str(status) in done.output
    assert ("1 of 1 accepted" in done.output) is (code == 0)


def test_answer_is_shown_as_its_sentence(ingress: ScriptedSubscriber) -> None:
    done = CliRunner().invoke(cli, ["send", "--url", ingress.script("/", says(400, b'{"error": "no such thing"}'))])
    assert "no such thing" in done.output
    assert "{" not in done.output
    assert [reason_of(body) for body in ("<html>", "[1]", "null", "")] == ["<html>", "[1]", "null", ""]


def test_unknown_channel_and_no_kafka(ingress: ScriptedSubscriber) -> None:
    ingress.script("/channels/a/x", says(404))
    address = f"127.0.0.1:{ingress.port}"
    done = penstock("send", "--server", address, "--channel", "a/x", "--kafka", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert f"{address} does not serve the channel a/x. `penstock status` lists the channels." in done.stderr


def test_broker_has_a_path_of_its_own(ingress: ScriptedSubscriber) -> None:
    ingress.script("/brokers/a/b", says(202))
    ingress.script("/brokers/a/x", says(404))
    server = f"127.0.0.1:{ingress.port}"
    assert CliRunner().invoke(cli, ["send", "--server", server, "--broker", "a/b"]).exit_code == 0
    assert len(ingress.requests("/brokers/a/b")) == 1
    done = penstock("send", "--server", server, "--broker", "a/x", "--kafka", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert f"{server} does not serve the broker a/x. `penstock status` lists the brokers." in done.stderr
    assert "--broker 'x' is not a valid broker name" in penstock("send", "--broker", "x").stderr


def test_curl_of_the_tutorial_sends_its_event() -> None:
    """Run through a shell with `printf` instead of `curl`: quoting survives."""
    tutorial = (REPOSITORY / "docs" / "tutorial.md").read_text()
    (block,) = [block for block in re.findall(r"```\n(.*?)```", tutorial, re.DOTALL) if "originationTime" in block]
    command = block.replace("| curl ", "| printf '%s\\n' ")
    lines = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-1] == "http://localhost:8080/"
    assert {
        "Host: my-kafkachannel-service.mynamespace.svc.cluster.local",
        "ce-id: 123",
        "ce-source: /testsource",
        "ce-specversion: 1.0",
    } <= set(lines)
    body = subprocess.run(
        ["bash", "-c", command.partition(" | printf")[0]], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(body)["content"] == "Test Message"
