"""What is said about a kubeconfig that cannot be used."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from controller.kube.api_server import ApiServer, namespace_of
from controller.kube.kubeconfig import check_kubeconfig
from knative.errors import UsageError

GOOD = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:2"}}]
users: [{name: u, user: {token: canary}}]
contexts: [{name: one, context: {cluster: a, user: u, namespace: ns}}, {name: two, context: {cluster: b, user: u}}]
"""
CURRENT = "current-context: one\n"
ROWS = {
    "no YAML": ("users: [canary", "", "is not valid YAML (line 1)"),
    "not UTF-8": (b"\xff", "", "is not valid YAML"),
    "a text": ("canary", "", "is not a kubeconfig"),
    "empty": ("", "", "is not a kubeconfig"),
    "no contexts": (
        "users: []\n" + CURRENT,
        "",
        "has no context 'one'. Set KUBECONFIG",
    ),
    "contexts that are none": ("contexts: [1, {}]\n" + CURRENT, "", "has no context"),
    "no current context": (
        GOOD,
        "",
        "has no current context. Set --context or PENSTOCK_KUBE_CONTEXT to one that it has: one, two",
    ),
    "another context": (GOOD + CURRENT, "three", "has no context 'three'"),
    "a cluster that is not there": (GOOD + CURRENT, "two", "is not valid"),
    "users that are none": (GOOD.replace("users: [", "users: 5 #") + CURRENT, "", "is not valid"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_wrong_with_a_kubeconfig(row: tuple[str | bytes, str, str], tmp_path: Path) -> None:
    content, context, says = row
    path = tmp_path / "kubeconfig"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as error:
        asyncio.run(ApiServer(str(path), context).open())
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "canary" not in str(error.value)


def test_one_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(UsageError, match=r"There is no kubeconfig .*none\. Set KUBECONFIG or PENSTOCK_KUBECONFIG"):
        namespace_of(path, "")


def test_one_of_several_files_is_enough(tmp_path: Path) -> None:
    (tmp_path / "contexts").write_text(GOOD)
    (tmp_path / "current").write_text(CURRENT)
    paths = os.pathsep.join(str(tmp_path / name) for name in ("none", "contexts", "current"))
    check_kubeconfig(paths)
    check_kubeconfig(paths, "two")
    assert namespace_of(paths, "") == "ns"
