"""The Send form of a console whose ingress speaks TLS with a certificate of an authority, for a name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from app.operations.console.sending import ingress_of, prepared
from app.settings.load import Settings
from knative.errors import PenstockError
from tests.support.certificates import Authority
from tests.support.console import CHANNEL
from tests.support.subscriber import ScriptedSubscriber, says

_EVENT = {"type": "t", "source": "/s"}


def test_event_goes_to_the_name_of_the_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path / "authority")
    signed = authority.sign("ingress", "DNS:localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    with ScriptedSubscriber(context) as server:
        server.script("/channels/demo/orders", says(202))
        url = f"https://localhost:{server.port}"
        settings = Settings(
            tls_cert=str(signed.certificate), tls_key=str(signed.key), http_port=server.port, ingress_url=url
        )
        assert prepared(settings, CHANNEL, _EVENT, "x")().status == 202


def test_without_a_name_the_command_is_offered() -> None:
    with pytest.raises(PenstockError, match=r"PENSTOCK_INGRESS_URL.* `penstock send --channel demo/orders --server"):
        prepared(Settings(tls_cert="ingress.crt", tls_key="ingress.key"), CHANNEL, _EVENT, "x")


@pytest.mark.parametrize(
    ("bind", "server"),
    [
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("::1", "http://[::1]:8080"),
        ("10.0.0.7", "http://10.0.0.7:8080"),
    ],
)
def test_ingress_is_asked_where_it_listens(bind: str, server: str) -> None:
    assert ingress_of(Settings(bind=bind, http_port=8080)) == server
