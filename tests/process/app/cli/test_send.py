"""`penstock send` against an HTTP server, and the curl that does the same."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from typer.testing import CliRunner

from app.cli import cli
from penstock.client import reason_of
from tests.support.processes import REPOSITORY, free_port, penstock
from tests.support.serving import serving


class _Ingress(BaseHTTPRequestHandler):
    """Answers as its server was configured, and keeps what it received."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, dict(self.headers.items()), body))  # type: ignore[attr-defined]
        reason = b"" if self.server.status == 202 else b'{"error": "no such thing"}'  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("content-length", str(len(reason)))
        self.end_headers()
        self.wfile.write(reason)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def ingress() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Ingress)
    server.seen, server.status = [], 202  # type: ignore[attr-defined]
    with serving(server):
        yield server


def test_send_keeps_the_bytes(ingress: HTTPServer) -> None:
    address = f"http://127.0.0.1:{ingress.server_port}"
    done = CliRunner().invoke(
        cli,
        ["send", "--server", address, "--channel", "ns/c", "--data", "[1, true, 12345678901234567890]", "--key", "k 1",
         "--id", "e", "--count", "2", "-H", "X-Request-Id: 7", "-a", "subject=ü", "-o", "json"],
    )  # fmt: skip
    assert done.exit_code == 0
    answer = json.loads(done.output)
    assert (answer["sent"], answer["accepted"]) == (2, 2)
    assert [event["id"] for event in answer["events"]] == ["e-1", "e-2"]
    path, headers, body = ingress.seen[0]  # type: ignore[attr-defined]
    headers = {name.lower(): value for name, value in headers.items()}
    assert path == "/channels/ns/c"
    assert body == b"[1, true, 12345678901234567890]"
    assert headers["ce-id"] == "e-1"
    assert headers["ce-partitionkey"] == "k%201"
    assert headers["ce-subject"] == "%C3%BC"
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"] == "7"


@pytest.mark.parametrize(("status", "code"), [(202, 0), (400, 1), (413, 1), (429, 3), (503, 3)])
def test_exit_code_of_send_says_whether_to_try_again(ingress: HTTPServer, status: int, code: int) -> None:
    ingress.status = status  # type: ignore[attr-defined]
    done = CliRunner().invoke(cli, ["send", "--url", f"http://127.0.0.1:{ingress.server_port}/"])
    assert done.exit_code == code
    assert str(status) in done.output
    assert ("1 of 1 accepted" in done.output) is (code == 0)


def test_answer_is_shown_as_its_sentence(ingress: HTTPServer) -> None:
    ingress.status = 400  # type: ignore[attr-defined]
    done = CliRunner().invoke(cli, ["send", "--url", f"http://127.0.0.1:{ingress.server_port}/"])
    assert "no such thing" in done.output
    assert "{" not in done.output
    assert [reason_of(body) for body in ("<html>", "[1]", "null", "")] == ["<html>", "[1]", "null", ""]


def test_unknown_channel_and_no_kafka(ingress: HTTPServer) -> None:
    ingress.status = 404  # type: ignore[attr-defined]
    address = f"127.0.0.1:{ingress.server_port}"
    done = penstock("send", "--server", address, "--channel", "a/x", "--kafka", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert f"{address} does not serve a channel a/x. `penstock status` lists the channels." in done.stderr


def test_broker_has_a_path_of_its_own(ingress: HTTPServer) -> None:
    server = f"127.0.0.1:{ingress.server_port}"
    assert CliRunner().invoke(cli, ["send", "--server", server, "--broker", "a/b"]).exit_code == 0
    assert ingress.seen[0][0] == "/brokers/a/b"  # type: ignore[attr-defined]
    ingress.status = 404  # type: ignore[attr-defined]
    done = penstock("send", "--server", server, "--broker", "a/x", "--kafka", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert f"{server} does not serve a broker a/x. `penstock status` lists the brokers." in done.stderr
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
