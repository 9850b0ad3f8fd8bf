"""Files that change while they are used: a certificate, and the file of tokens."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from pathlib import Path

import pytest
import yaml

from app.worker.secrets.file_watch import FileWatch
from app.worker.secrets.tls import ServerTls
from app.worker.secrets.token_file import read_tokens
from knative.errors import UsageError
from tests.support.certificates import Authority, Signed
from web.ingress.senders import Sender, Senders


def _write(path: Path, *tokens: str) -> None:
    """As a mounted Secret is replaced: another file at the same path."""
    entries = [
        {"name": token, "sha256": hashlib.sha256(token.encode()).hexdigest(), "channels": ["a/b"]} for token in tokens
    ]
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(entries))
    new.rename(path)


def test_tokens_are_read_again_and_a_file_that_is_not_valid_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    used: list[Senders] = []
    _write(path, "one")
    watch = FileWatch("tokens", [path], lambda: read_tokens(path), used.append)

    def look() -> list[bool]:
        """Whether each token is known to what is used now."""
        asyncio.run(watch.look())
        senders = used[-1] if used else Senders({})
        return [isinstance(senders.identify(b"Bearer " + token), Sender) for token in (b"one", b"two")]

    assert look() == [True, False]
    assert len(used) == 1, "nothing has changed"
    _write(path, "one", "two")
    assert look() == [True, True]
    path.write_text("- name: [")
    assert look() == [True, True]
    path.unlink()
    assert look() == [True, True]
    _write(path, "two")
    assert look() == [False, True]
    assert len(used) == 3


def test_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path, used = tmp_path / "file", list[str]()
    path.write_text("one")
    later: list[str] = []

    def read() -> str:
        text = path.read_text()
        if later:
            path.write_text(later.pop())
        return text

    watch = FileWatch("file", [path], read, used.append)
    later.append("the third")
    path.write_text("second")
    for _ in range(2):
        asyncio.run(watch.look())
    assert used == ["one", "the third"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- name: [secret", "is not valid YAML in line"),
        ("\x00", "is not valid YAML"),
        ("- name: 2024-02-30", "has a value that is not valid"),
        ("", "it is empty"),
        ("- name: x", "token 1: its sha256 is not 64 hexadecimal digits"),
    ],
)
def test_token_file_that_is_not_valid(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem) as error:
        read_tokens(path)
    assert "secret" not in str(error.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_tokens(tmp_path / "absent")


def test_certificate_is_replaced_only_by_a_good_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    files = Signed(tmp_path / "tls.crt", tmp_path / "tls.key")

    def install(signed: Signed) -> None:
        files.certificate.write_bytes(signed.certificate.read_bytes())
        files.key.write_bytes(signed.key.read_bytes())

    install(authority.sign("first"))
    tls = ServerTls(files.certificate, files.key)
    watch = FileWatch("tls", tls.paths, tls.read, tls.use)
    assert _shown(tls.context, authority) == "first"
    second = authority.sign("second")
    files.certificate.write_bytes(second.certificate.read_bytes())  # and not yet its key
    asyncio.run(watch.look())
    assert _shown(tls.context, authority) == "first"
    install(second)
    asyncio.run(watch.look())
    assert _shown(tls.context, authority) == "second"


def test_files_that_are_no_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    signed, other = authority.sign("one"), authority.sign("other")
    text = tmp_path / "text"
    text.write_text("text")
    for certificate, key in ((signed.certificate, other.key), (text, signed.key), (tmp_path / "absent", signed.key)):
        with pytest.raises(UsageError, match="PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY"):
            ServerTls(certificate, key).read()


def _shown(server: ssl.SSLContext, authority: Authority) -> str:
    """The name in the certificate that a client gets."""
    client = ssl.create_default_context(cafile=str(authority.certificate))
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(a, b, server_hostname="localhost"), server.wrap_bio(b, a, server_side=True)]
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = ends[0].getpeercert()
    assert certificate is not None
    return str(dict(pair[0] for pair in certificate["subject"])["commonName"])  # type: ignore[misc]
