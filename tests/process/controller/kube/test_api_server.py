"""The kubeconfig of an API server: its exec plugin is a process that may hang."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.processes import Child

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [PLUGIN]}}}]
contexts: [{name: shop, context: {cluster: c, user: u}}]
current-context: shop
"""
#: Runs until the test creates the file `end`, or for 60 seconds.
HANGS = "i=0; while [ ! -e FOLDER/end ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"
OPEN = """
import asyncio, sys
from controller.kube import api_server
from knative.errors import UsageError
api_server.CREDENTIALS_S = 0.5
try:
    asyncio.run(api_server.ApiServer(sys.argv[1]).open())
except UsageError as error:
    print(error)
"""


def test_exec_plugin_that_hangs_is_an_error(tmp_path: Path) -> None:
    plugin, config = tmp_path / "plugin.sh", tmp_path / "config"
    plugin.write_text(HANGS.replace("FOLDER", str(tmp_path)))
    config.write_text(KUBECONFIG.replace("PLUGIN", str(plugin)))
    with Child("open", [sys.executable, "-c", OPEN, str(config)], tmp_path) as child:
        try:
            assert child.wait(50) == 0, child.tail()
            assert "The kubeconfig's exec plugin gave no credentials within 0.5 s." in child.output()
        finally:
            (tmp_path / "end").touch()
