"""The command line: what it says, where, and what it ends with. The worker itself is met in the system tests."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.cli.demos.report import Attempt, Tally, percentile_ms
from app.cli.output.up_banner import curl, welcome
from app.cli.receive import as_json, as_lines
from app.cli.send import guess_content_type, reason_of, unknown_channel
from app.local.child_process import Child, loud_line
from app.local.kafka.ports import free_port, is_open
from app.local.probes import host_of, resources_in, subscriptions_by_channel
from app.local.quickstart import place_quickstart
from app.local.sample_subscriber import Refusals, attributes_of, line_of
from app.local.stack import StackConfig
from app.operations.topic_reader import StoredRecord
from knative.errors import UsageError
from knative.resources.kinds import KafkaChannel
from tests.support.processes import wait_until

_REPOSITORY = Path(__file__).parents[4]
_QUICKSTART = _REPOSITORY / "examples" / "quickstart"


def _penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=_REPOSITORY)


def test_version_and_usage() -> None:
    assert _penstock("--version").stdout == "penstock 0.1.0\n"
    wrong = _penstock("kafka", "up", "--port", "none")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--show-completion", "tcsh"], 2, "Write bash, zsh, fish"),
        (["send", "--channel", "x"], 2, "Write NAMESPACE/NAME"),
        (["send", "--data", "x", "--data-file", "y"], 2, "Give one of them"),
        (["send", "--data-file", "/no/such/file"], 2, "cannot be read"),
        (["send", "--attribute", "Bad Name=1", "--url", "http://127.0.0.1:1/"], 2, "no CloudEvent"),
        (["send", "--url", "ftp://x"], 2, "no address"),
        (["receive", "--last", "1", "--from-beginning"], 2, "Give one of them"),
        (["worker", "--set", "nonsense"], 2, "NAME=VALUE"),
        (["tail", "ns/ch", "--filter", "type"], 2, "Write ATTRIBUTE=VALUE"),
        (["tail", "ns/ch", "--since", "soon"], 2, "RFC 3339"),
        (["dlq", "redrive"], 2, "--all"),
        (["dlq", "redrive", "t/0/1", "--reason", "x"], 2, "Give one of them"),
        (["dlq", "redrive", "--all", "--rate", "fast"], 2, "Write N/s"),
        (["dlq", "list", "--until", "then"], 2, "--until"),
        (["worker", "--web-port", "none"], 2, "PENSTOCK_HTTP_PORT"),
        (["up", "--resources", "/no/such/folder"], 2, "no directory"),
    ],
)
def test_errors_are_one_sentence_with_a_cure(arguments: list[str], code: int, says: str) -> None:
    done = _penstock(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_nobody_there_is_not_ready() -> None:
    done = _penstock("send", "--server", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert "penstock up" in done.stderr


def test_kafka_status_when_down(tmp_path: Path) -> None:
    done = _penstock("kafka", "status", "--data", str(tmp_path), "-o", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["state"] == "down"


def test_config_show() -> None:
    shown = json.loads(_penstock("config", "show", "-o", "json").stdout)
    assert {"PENSTOCK_KAFKA", "PENSTOCK_HTTP_PORT"} <= {row["name"] for row in shown}


class _Ingress(BaseHTTPRequestHandler):
    """Answers what its server was told to, and keeps what it was sent."""

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
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


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
def test_the_exit_code_of_send_says_whether_to_try_again(ingress: HTTPServer, status: int, code: int) -> None:
    ingress.status = status  # type: ignore[attr-defined]
    done = CliRunner().invoke(cli, ["send", "--url", f"http://127.0.0.1:{ingress.server_port}/"])
    assert done.exit_code == code
    assert str(status) in done.output
    assert ("1 of 1 accepted" in done.output) is (code == 0)


def test_an_answer_is_shown_as_its_sentence(ingress: HTTPServer) -> None:
    ingress.status = 400  # type: ignore[attr-defined]
    done = CliRunner().invoke(cli, ["send", "--url", f"http://127.0.0.1:{ingress.server_port}/"])
    assert "no such thing" in done.output
    assert "{" not in done.output
    assert [reason_of(body) for body in ("<html>", "[1]", "null", "")] == ["<html>", "[1]", "null", ""]


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (["a/one", "a/two"], "h:1 does not serve a channel a/x; known: a/one, a/two."),
        ([], "known: none."),
        (["a/x"], "h:1 does not serve a channel a/x yet"),
        (None, "`penstock status` lists the channels."),
    ],
)
def test_an_unknown_channel(known: list[str] | None, says: str) -> None:
    assert says in str(unknown_channel("a/x", "h:1", known))


def test_an_unknown_channel_and_no_kafka(ingress: HTTPServer) -> None:
    ingress.status = 404  # type: ignore[attr-defined]
    address = f"127.0.0.1:{ingress.server_port}"
    done = _penstock("send", "--server", address, "--channel", "a/x", "--kafka", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert f"{address} does not serve a channel a/x. `penstock status` lists the channels." in done.stderr


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b'{"a": 1}', "application/json"), (b"hello", "text/plain"), (b"\xff\x00", "application/octet-stream")],
)
def test_content_types_are_guessed(body: bytes, kind: str) -> None:
    assert guess_content_type(body) == kind


def _record(**changes: object) -> StoredRecord:
    fields: dict[str, object] = {
        "topic": "t", "partition": 1, "offset": 7, "timestamp_ms": 1_700_000_000_123, "key": b"k",
        "headers": (("ce_id", b"1"), ("ce_type", b"a"), ("ce_source", b"/s"), ("content-type", b"text/plain")),
        "value": b"hello",
    }  # fmt: skip
    return StoredRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_an_event_is_one_line() -> None:
    assert as_lines(_record()) == ["2023-11-14T22:13:20.123+00:00 1/7 key=k 1 a /s hello"]


def test_a_dead_letter_says_why() -> None:
    headers = (("ce_id", b"1"), ("ce_knativeerrorcode", b"500"), ("penstock-attempts", b"3"), ("x-request-id", b"9"))
    lines = as_lines(_record(headers=headers, value=None, key=None))
    assert lines[0].endswith(" 1/7 1 - - (no data)")
    assert lines[1:] == ["    knativeerrorcode: 500", "    penstock-attempts: 3"]


def test_nothing_in_an_event_drives_the_terminal() -> None:
    lines = as_lines(_record(value=b"a\x1b[2J", headers=(("ce_id", b"\x1b]0;x\x07"),)))
    assert all(line.isprintable() for line in lines)


def test_json_has_the_bytes() -> None:
    shown = as_json(_record(value=b"\xff"))
    assert shown["attributes"] == {"id": "1", "type": "a", "source": "/s", "datacontenttype": "text/plain"}
    assert (shown["key"], shown["data_base64"]) == ("k", "/w==")
    assert as_json(_record(value=None))["data"] is None


def test_the_quickstart_is_what_the_commands_expect(tmp_path: Path) -> None:
    resources = resources_in(_QUICKSTART)
    assert subscriptions_by_channel(resources) == {"default/quickstart": 2}
    channel = next(one for one in resources if isinstance(one, KafkaChannel))
    assert channel.partitions == 4
    assert host_of(channel) == "my-kafkachannel-service.mynamespace.svc.cluster.local"
    place_quickstart(_QUICKSTART, tmp_path / "copy", 29999)
    uris = {one.subscriber.uri for one in resources_in(tmp_path / "copy") if not isinstance(one, KafkaChannel)}
    assert uris == {"http://127.0.0.1:29999/good", "http://127.0.0.1:29999/picky"}
    with pytest.raises(UsageError, match="no directory"):
        resources_in(tmp_path / "nowhere")


def test_up_sees_the_resources_that_the_controller_sees(tmp_path: Path) -> None:
    """In folders, in JSON, in files with capital letters; `on` is a name."""
    (tmp_path / "shop").mkdir()
    head = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}
    (tmp_path / "shop" / "a.json").write_text(json.dumps({**head, "metadata": {"name": "json"}}))
    (tmp_path / "B.YAML").write_text(f"apiVersion: {head['apiVersion']}\nkind: KafkaChannel\nmetadata: {{name: on}}\n")
    (tmp_path / "bad.yaml").write_text("kind: [")
    assert subscriptions_by_channel(resources_in(tmp_path)) == {"default/json": 0, "default/on": 0}


def test_up_says_what_to_try(tmp_path: Path) -> None:
    config = StackConfig(home=tmp_path, resources=_QUICKSTART, jars_root=tmp_path)
    lines = welcome(config, "127.0.0.1:9092", [tmp_path / "worker.log", None], 3.2)
    host = "my-kafkachannel-service.mynamespace.svc.cluster.local"
    assert curl("http://localhost:8080/", host) in lines
    assert curl("http://localhost:8080/channels/default/quickstart") in lines
    assert any("localhost:8081/metrics" in line for line in lines)
    assert any("--dlq" in line for line in lines)


def test_the_curl_sends_the_example_event() -> None:
    """Run through a shell with `printf` instead of `curl`: quoting survives."""
    command = curl("http://localhost:8080/", "h").replace("| curl ", "| printf '%s\\n' ")
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[-1] == "http://localhost:8080/"
    assert {"Host: h", "ce-id: 123", "ce-source: /testsource", "ce-specversion: 1.0"} <= set(shown)
    body = subprocess.run(
        ["bash", "-c", command.partition(" | printf")[0]], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(body)["content"] == "Test Message"


def test_every_tenth_event_is_refused_at_each_attempt() -> None:
    refusals = Refusals(every=10, remembered=25)
    verdicts = {number: refusals.refuses("/s", str(number)) for number in range(1, 21)}
    assert [number for number, refused in verdicts.items() if refused] == [10, 20]
    assert refusals.refuses("/s", "20")
    assert not refusals.refuses("/s", "19")


def test_the_sample_subscriber_takes_the_largest_heads() -> None:
    """As many attributes, and as long ones, as ingress takes."""
    port = free_port()
    command = [sys.executable, "-m", "app.local.sample_subscriber", "--port", str(port), "--quiet"]
    with subprocess.Popen(command, cwd=_QUICKSTART.parents[1]) as process:
        try:
            wait_until("it listens", lambda: is_open(port), 30)
            for headers in ({f"ce-x{number}": "a" for number in range(500)}, {"ce-x": "%20" * 131_072}):
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
                    client.request("POST", "/good", b"{}", {"ce-id": "1", **headers})
                    assert client.getresponse().status == 200
        finally:
            process.terminate()
        assert process.wait(30) == 0


def test_the_sample_subscriber_prints_one_safe_line() -> None:
    attributes = attributes_of(
        {"Ce-Id": "a%20b", "ce-type": "t", "CE-Source": "/s", "Content-Type": "x/y", "Host": "h"}
    )
    assert attributes == {"id": "a b", "type": "t", "source": "/s", "datacontenttype": "x/y"}
    assert line_of("good", 200, attributes, b"d\na") == "good  got     id=a b type=t source=/s d a"
    assert line_of("picky", 500, {"id": "\x1b"}, b"").isprintable()


def test_loud_lines() -> None:
    assert loud_line('{"level": "warning", "event": "odd", "topic": "t", "logger": "x"}') == "warning: odd topic=t"
    assert loud_line('{"level": "info", "event": "fine"}') is None
    assert loud_line('{"level": "error", "event": "odd", "field": "", "line": null, "n": 0}') == "error: odd n=0"
    trace = {"level": "critical", "event": "ends", "exception": "Traceback\n  File x\nTypeError: odd"}
    assert loud_line(json.dumps(trace)) == "critical: ends TypeError: odd"
    assert loud_line("plain") is None
    assert loud_line("{broken") is None


def test_a_child_keeps_its_log_and_says_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    loud: list[str] = []
    code = 'print(\'{"level": "error", "event": "bad"}\'); raise SystemExit(4)'
    child = Child("x", [sys.executable, "-c", code], log, loud.append)
    assert child.last_words == "", "it was said already"
    assert child.stop(10)
    unheard = Child("x", [sys.executable, "-c", code], log)
    assert unheard.last_words == "error: bad"
    assert unheard.stop(10)
    assert child.code == 4
    assert loud == ["error: bad"]
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    again = Child("x", [sys.executable, "-c", deaf], log)
    until = time.monotonic() + 20
    while not (log.exists() and "up" in log.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not again.stop(0.1)  # it does not listen: killed
    assert again.code is not None
    assert (tmp_path / "x.log.1").read_text().startswith("{")


def _attempt(event_id: str, sequence: int, status: int = 200, name: str = "good") -> Attempt:
    return Attempt(name, status, event_id, "k", sequence, 0, 2_000_000)


def _tally() -> Tally:
    return Tally({"a": 202, "b": 202, "c": 503}, {"ns/good": "good", "ns/picky": "picky"})


def test_a_good_demo() -> None:
    tally = _tally()
    for attempt in (_attempt("a", 0), _attempt("b", 1), _attempt("a", 0, name="picky")):
        tally.attempt(attempt)
    tally.attempt(_attempt("b", 1, 500, "picky"))
    tally.attempt(_attempt("b", 1, 500, "picky"))
    assert tally.missing == {("picky", "b")}
    letter = _record(headers=(("ce_id", b"b"), ("penstock-subscription", b"ns/picky")))
    tally.dead_letter(letter)
    tally.dead_letter(letter)
    assert tally.report() == {
        "sent": 3, "accepted": 2, "delivered": 3, "retried": 1, "dead_lettered": 1, "lost": 0, "duplicates": 0,
        "out_of_order": 0, "p50_ms": 2.0, "p99_ms": 2.0, "picky_p99_ms": 2.0,
    }  # fmt: skip


def test_the_demo_finds_what_is_wrong() -> None:
    tally = _tally()
    for attempt in (_attempt("b", 1), _attempt("a", 0), _attempt("a", 0)):
        tally.attempt(attempt)
    tally.attempt(_attempt("b", 1, 500, "picky"))
    letter = _record(headers=(("ce_id", b"b"), ("penstock-subscription", b"ns/picky")), timestamp_ms=1)
    tally.dead_letter(letter)
    tally.attempt(_attempt("b", 1, 500, "picky"))  # at 2 ms: tried again although it had become a dead letter
    found = tally.report()
    assert (found["lost"], found["duplicates"], found["out_of_order"], found["retried"]) == (1, 2, 1, 0)


def test_percentiles() -> None:
    values = [number * 1_000_000 for number in range(1, 101)]
    assert (percentile_ms(values, 0.5), percentile_ms(values, 0.99)) == (50.0, 99.0)
    assert percentile_ms([5_000_000], 0.99) == 5.0
    assert percentile_ms([], 0.5) is None
