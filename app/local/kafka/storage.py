"""The data directory of an embedded broker: writes `server.properties`, and formats the storage once.

Does not format a storage again, so its data stays.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from app.local.kafka.config import Cluster, Node, server_properties
from app.local.kafka.locks import unwritable
from app.timing import START_S
from knative.errors import NotReadyError, PenstockError

DATA = ("--data", "Kafka's data")  #: the option that chooses its folder, and what is written to it


def prepare(data_dir: Path, cluster: Cluster, node: Node, java: list[str], limit_s: float = START_S) -> Path:
    """Prepare `data_dir` for `node` and return the properties file. `java`: the command line up to the main class.

    Raises PenstockError when the directory cannot be written or formatted, NotReadyError when that takes too long.
    """
    storage = data_dir / "storage"
    properties = data_dir / "server.properties"
    try:
        properties.write_text(server_properties(cluster, node, storage))
    except OSError as problem:
        raise unwritable(data_dir, *DATA, problem) from problem
    if not (storage / "meta.properties").exists():
        _format(
            [*java, "kafka.tools.StorageTool", "format", "-t", cluster.id, "-c", str(properties)], data_dir, limit_s
        )
    return properties


def _format(command: list[str], data_dir: Path, limit_s: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=limit_s)
    except subprocess.TimeoutExpired as problem:
        raise NotReadyError(
            f"Formatting {data_dir} for Kafka took longer than {limit_s:.0f} s.",
            "Try again, and allow more time with --timeout.",
        ) from problem
    if done.returncode:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        lines = [line for line in said if line and not line.startswith("Picked up ")]  # JAVA_TOOL_OPTIONS
        why = lines[-1] if lines else f"exit code {done.returncode}"
        raise PenstockError(
            f"The data directory {data_dir} cannot be formatted for Kafka: {why.rstrip('.')}.",
            "Check --heap, such as 512m, or choose another directory (--data DIR).",
        )
