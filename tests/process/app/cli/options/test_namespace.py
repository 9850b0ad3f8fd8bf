"""Which namespace `--context` names: the client library tries the network when it is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.options.namespace import chosen_namespace
from knative.errors import UsageError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users:
  - {name: u, user: {token: t}}
  - {name: p, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [FOLDER/asked]}}}
contexts:
  - {name: shop, context: {cluster: c, user: u, namespace: orders}}
  - {name: plain, context: {cluster: c, user: u}}
  - {name: plugin, context: {cluster: c, user: p, namespace: bills}}
current-context: plain
"""


@pytest.fixture(autouse=True)
def _kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(KUBECONFIG.replace("FOLDER", str(tmp_path)))
    monkeypatch.setenv("PENSTOCK_KUBECONFIG", str(tmp_path / "config"))


@pytest.mark.parametrize(("context", "namespace"), [("shop", "orders"), ("plain", "default")])
def test_context_has_a_namespace(context: str, namespace: str) -> None:
    assert chosen_namespace("", False, context) == namespace


def test_credentials_are_not_asked_for(tmp_path: Path) -> None:
    assert chosen_namespace("", False, "plugin") == "bills"
    assert not (tmp_path / "asked").exists()


def test_unknown_context_is_named() -> None:
    with pytest.raises(UsageError, match="unknown"):
        chosen_namespace("", False, "unknown")
