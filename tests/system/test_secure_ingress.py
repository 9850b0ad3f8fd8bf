"""The ingress with TLS and tokens, as clients see it: curl, openssl, open connections, handshakes that do not end."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from app.worker import file_limits
from tests.support.certificates import Authority, Signed
from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import REPOSITORY, Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

LIMIT_S = 180.0
ATTRIBUTES = {"ce-specversion": "1.0", "ce-source": "/t", "ce-type": "t"}
HALF_OPEN = 2000
MANY_SPACES = 120_000  #: below the limit for headers


@dataclass(slots=True)
class Secured:
    """A worker with TLS and tokens, and a channel with one subscription."""

    installation: Installation
    worker: Worker
    authority: Authority
    certificate: Signed
    tokens: Path
    subscriber: ScriptedSubscriber
    token: str = ""
    others: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.installation.resources.path

    def connect(self) -> http.client.HTTPSConnection:
        """A connection of a client that trusts the authority."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        return http.client.HTTPSConnection("127.0.0.1", self.worker.port, timeout=LIMIT_S, context=context)

    def post(
        self, event_id: str, token: str | None, connection: http.client.HTTPSConnection | None = None, path: str = ""
    ) -> tuple[int, str]:
        """Status and error of one event."""
        headers = {**ATTRIBUTES, "ce-id": event_id, **({} if token is None else {"Authorization": f"Bearer {token}"})}
        client = connection or self.connect()
        try:
            client.request("POST", path or self.path, b"x", headers)
            answer = client.getresponse()
            body = answer.read()
        finally:
            if connection is None:
                client.close()
        return answer.status, json.loads(body)["error"] if body else ""

    def install(self, signed: Signed) -> None:
        """Replace the certificate, as a mounted Secret is replaced."""
        for source, target in ((signed.key, self.certificate.key), (signed.certificate, self.certificate.certificate)):
            new = target.with_suffix(".new")
            new.write_bytes(source.read_bytes())
            new.rename(target)

    def common_name(self) -> str:
        """The name in the certificate that a new client gets; it need not be valid."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.worker.port), LIMIT_S) as plain,
            context.wrap_socket(plain) as connection,
        ):
            der = connection.getpeercert(binary_form=True)
        assert der is not None
        command = ["openssl", "x509", "-inform", "der", "-noout", "-subject"]
        done = subprocess.run(command, input=der, capture_output=True, check=True, timeout=LIMIT_S)
        return done.stdout.decode().rpartition("=")[2].strip()


def _make_token(file: Path, name: str, *targets: str) -> str:
    command = [sys.executable, "-m", "app.cli", "token", name, *targets, "--file", str(file)]
    return subprocess.run(
        command, capture_output=True, check=True, timeout=LIMIT_S, text=True, cwd=REPOSITORY
    ).stdout.strip()


@pytest.fixture(scope="module")
def secured(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("door")
    authority = Authority(folder / "authority")
    certificate, tokens = Signed(folder / "tls.crt", folder / "tls.key"), folder / "tokens.yaml"
    env = {
        "PENSTOCK_TLS_CERT": str(certificate.certificate),
        "PENSTOCK_TLS_KEY": str(certificate.key),
        "PENSTOCK_TOKENS": f"file:{tokens}",
    }
    installation = Installation(kafka.bootstrap, folder, env=env)
    first = authority.sign("first")
    certificate.certificate.write_bytes(first.certificate.read_bytes())
    certificate.key.write_bytes(first.key.read_bytes())
    name = f"{NAMESPACE}/{installation.resources.channel}"
    token = _make_token(tokens, "shop", "--channel", name)
    other = _make_token(tokens, "elsewhere", "--channel", "other/*", "--broker", f"{NAMESPACE}/*")
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("one", subscriber.script("/one", says(200)))])
        with installation.worker() as worker:
            ingress = Secured(installation, worker, authority, certificate, tokens, subscriber, token, [other])
            wait_until("the channel takes events", lambda: _takes(ingress), LIMIT_S, poll_s=0.2)
            yield ingress
            assert worker.terminate() == 0, worker.tail()


def _takes(secured: Secured) -> bool:
    try:
        return secured.post("ready", secured.token)[0] == 202
    except OSError:
        return False


def test_event_needs_a_token_that_may_send_to_its_channel(secured: Secured) -> None:
    unknown_channel = "/channels/test/there-is-none"
    assert secured.post("none", None) == (
        401,
        "send a token of PENSTOCK_TOKENS in the header Authorization: Bearer TOKEN",
    )
    assert secured.post("unknown", "penstock_x") == (401, "the token is not in PENSTOCK_TOKENS")
    title = f"KafkaChannel/{NAMESPACE}/{secured.installation.resources.channel}"
    assert secured.post("elsewhere", secured.others[0]) == (403, f"the token elsewhere may not send to {title}")
    assert secured.post("none", None, path=unknown_channel)[0] == 401, "channels cannot be found out without a token"
    assert secured.post("known", secured.token, path=unknown_channel)[0] == 404
    assert secured.post("good", secured.token) == (202, "")
    records = list(reader.records(secured.installation.bootstrap, secured.installation.resources.topic))
    ids = {reader.header(record, "ce_id") for record in records}
    assert "good" in ids
    assert ids.isdisjoint({"none", "unknown", "elsewhere", "known"})
    assert secured.token not in repr([(record.headers(), record.value()) for record in records])
    looked = contents(secured.installation.folder)
    assert [path for path, content in looked.items() if secured.token.encode() in content] == []
    assert any(path.suffix == ".log" for path in looked)


def test_spaces_around_a_token_are_not_kept(secured: Secured) -> None:
    """Each of these requests has other ones, and would stay in memory if they were a key of a table."""
    connection = secured.connect()
    at_first = _rss_after(secured, connection, range(20))
    grown = _rss_after(secured, connection, range(20, 1000)) - at_first
    connection.close()
    assert grown < MANY_SPACES * 1000 / 3, f"{grown / 1e6:.0f} MB"


def _rss_after(secured: Secured, connection: http.client.HTTPSConnection, numbers: range) -> int:
    for number in numbers:
        spaces = " " * (MANY_SPACES + number)
        assert secured.post(f"spaces-{number}", spaces + secured.token, connection)[0] == 202
    return secured.worker.rss_bytes()


def test_token_that_is_longer_than_any_is_not_looked_for(secured: Secured) -> None:
    assert secured.post("long", secured.token + "x" * 100_000) == (401, "the token is not in PENSTOCK_TOKENS")


def test_token_that_is_removed_and_one_that_is_guessed_at(secured: Secured) -> None:
    """On one connection that stays open."""
    before = secured.tokens.read_text()
    connection = secured.connect()
    assert secured.post("still", secured.token, connection)[0] == 202
    entries = before.partition("- name: elsewhere")
    secured.tokens.write_text("".join(entries[1:]))
    wait_until("it is refused", lambda: secured.post("removed", secured.token, connection)[0] == 401, LIMIT_S)
    statuses = [secured.post("guess", f"penstock_{number}", connection)[0] for number in range(20)]
    assert statuses[-1] == 429
    assert set(statuses) <= {401, 429}
    assert secured.post("known", secured.others[0], connection)[0] == 403, "who guesses does not lock others out"
    secured.tokens.write_text(before)
    wait_until("it is known again", lambda: secured.post("again", secured.token, connection)[0] == 202, LIMIT_S)
    connection.close()


def test_curl_and_openssl_are_served_and_plain_http_is_not(secured: Secured) -> None:
    """curl, even when it prefers HTTP/2; openssl; and a client without TLS."""
    url = f"https://127.0.0.1:{secured.worker.port}{secured.path}"
    trust = ["--cacert", str(secured.authority.certificate)]
    headers = [part for name, value in ATTRIBUTES.items() for part in ("-H", f"{name}: {value}")]
    headers += ["-H", f"Authorization: Bearer {secured.token}", "-H", "ce-id: curl"]
    command = ["curl", "-sS", "--http2", *trust, *headers, "-d", "x", "-w", "%{http_version} %{http_code}", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout == "1.1 202", done.stderr
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{secured.worker.port}", "-alpn", "h2,http/1.1"]
    command += ["-CAfile", str(secured.authority.certificate), "-verify_return_error"]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ALPN protocol: http/1.1" in done.stdout
    assert "Verify return code: 0 (ok)" in done.stdout
    with socket.create_connection(("127.0.0.1", secured.worker.port), LIMIT_S) as plain:
        plain.settimeout(LIMIT_S)
        plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"HTTP" not in _all(plain)
    command = ["curl", "-sS", "--tls-max", "1.1", *trust, *headers, "-d", "x", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (35, ""), done.stderr


def _all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while part := connection.recv(4096):
            received += part
    except ConnectionResetError:
        return received
    return received


def test_admin_port_has_tls_too(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=str(secured.authority.certificate))
    client = http.client.HTTPSConnection("127.0.0.1", secured.worker.admin_port, timeout=LIMIT_S, context=context)
    client.request("GET", "/healthz")
    assert client.getresponse().status == 200
    client.close()


def test_certificate_is_replaced_under_load(secured: Secured) -> None:
    """Connections that are open stay; new ones get the new certificate; no event is refused or lost."""
    stop, sent = threading.Event(), list[str]()
    failed: list[object] = []

    def load(kind: str) -> None:
        connection = secured.connect()
        number = 0
        while not stop.is_set():
            event_id = f"{kind}-{number}"
            try:
                answer: object = secured.post(event_id, secured.token, connection if kind == "stays" else None)
            except OSError as problem:
                answer = problem
            sent.append(event_id)
            if answer != (202, ""):
                failed.append(answer)
            number += 1
        connection.close()

    threads = [threading.Thread(target=load, args=(kind,)) for kind in ("stays", "new")]
    for thread in threads:
        thread.start()
    try:
        for name in ("second", "third"):
            secured.install(secured.authority.sign(name))
            wait_until(f"the {name} certificate is shown", lambda name=name: secured.common_name() == name, LIMIT_S)  # type: ignore[misc]
            count = len(sent)
            wait_until("more events are sent", lambda count=count: len(sent) > count + 20, LIMIT_S)  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert failed == []
    records = reader.records(secured.installation.bootstrap, secured.installation.resources.topic)
    assert set(sent) <= {reader.header(record, "ce_id") for record in records}


def test_expired_certificate_is_replaced(secured: Secured) -> None:
    secured.install(secured.authority.sign("late", expired=True))
    wait_until("it is shown", lambda: secured.common_name() == "late", LIMIT_S)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        secured.post("expired", secured.token)
    secured.install(secured.authority.sign("renewed"))
    wait_until("the new one is shown", lambda: secured.common_name() == "renewed", LIMIT_S)
    assert secured.post("renewed", secured.token)[0] == 202


def test_files_that_do_not_fit_are_not_used(secured: Secured) -> None:
    before = secured.common_name()
    secured.certificate.certificate.write_text("no certificate")
    wait_until("the log says so", lambda: "changed files are not used" in secured.worker.log.read_text(), LIMIT_S)
    assert secured.common_name() == before
    secured.install(secured.authority.sign("mended"))
    wait_until("the mended one is shown", lambda: secured.common_name() == "mended", LIMIT_S)


def test_handshakes_that_do_not_end_keep_nobody_out(secured: Secured) -> None:
    assert file_limits.allow(HALF_OPEN) is None  # of this process
    connections: list[socket.socket] = []
    try:
        while len(connections) < HALF_OPEN:
            connections.append(socket.create_connection(("127.0.0.1", secured.worker.port), LIMIT_S))
        for number in range(20):
            assert secured.post(f"beside-{number}", secured.token)[0] == 202
        for number, connection in enumerate(connections):
            if number % 2:
                connection.sendall(b"\x16\x03\x01")
        assert secured.post("beside", secured.token)[0] == 202
    finally:
        for connection in connections:
            connection.close()
    assert secured.post("after", secured.token)[0] == 202
