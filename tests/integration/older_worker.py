"""A worker of a version that does not know some features, for tests of an installation with several versions.

    python -m tests.integration.older_worker FEATURE[,FEATURE ...]

It differs from this version in nothing but the set of features that it supports.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from knative.contract import codec
from knative.contract.features import SUPPORTED
from tests.support.processes import Child, free_port, get


class OlderWorker(Child):
    """A dispatcher; `wait_until` it is `ready`."""

    def __init__(self, bootstrap: str, folder: Path, instance: str, features: str, env: Mapping[str, str]) -> None:
        self.port = free_port()
        settings = {
            "PENSTOCK_KAFKA": bootstrap,
            "PENSTOCK_ROLE": "dispatcher",
            "PENSTOCK_INSTANCE": instance,
            "PENSTOCK_BIND": "127.0.0.1",
            "PENSTOCK_HTTP_PORT": str(self.port),
            "PENSTOCK_ADMIN_PORT": "0",
            **env,
        }
        super().__init__("older-worker", [sys.executable, "-m", __name__, features], folder, settings)

    def readiness(self) -> tuple[int, bytes]:
        """The answer to /readyz; status 0 = none yet."""
        return get(self.port, "/readyz")


def main(features: str) -> None:
    """Run as `faust -A app worker` does."""
    vars(codec)["SUPPORTED"] = SUPPORTED - set(features.split(","))
    sys.argv = ["faust", "-A", "app", "worker", "-l", "info"]
    runpy.run_module("faust", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
