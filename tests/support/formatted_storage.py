"""Storages of embedded brokers as copies of one that Kafka has formatted: saves a JVM for each Kafka of a test.

What `penstock` starts formats its own. Several processes may use one folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from app.local.kafka.config import new_cluster_id

#: The command line of Kafka's tool, which ends with `format -t CLUSTER -c PROPERTIES`; the data directory; a limit.
Format = Callable[[list[str], Path, float], None]
_META = "meta.properties"


def formatted_once(really: Format, folder: Path) -> Format:
    """Does what `really` does: at the first call for the number of a node by calling it; later by a copy of what that
    has made, which is kept in `folder`, with the cluster's id and a new id for the directory."""

    def format_(command: list[str], data_dir: Path, limit_s: float) -> None:
        node = _value("node.id", (data_dir / "server.properties").read_text())
        kept, storage = folder / node, data_dir / "storage"
        if not kept.exists():
            really(command, data_dir, limit_s)
            new = folder / f"{node}.{os.getpid()}"
            shutil.copytree(storage, new)
            try:
                new.rename(kept)
            except OSError:  # another process was first
                shutil.rmtree(new)
            return
        shutil.copytree(kept, storage, dirs_exist_ok=True)
        meta = (kept / _META).read_text()
        for name, id_ in (("cluster.id", command[-3]), ("directory.id", new_cluster_id())):
            meta = meta.replace(f"{name}={_value(name, meta)}", f"{name}={id_}")
        (storage / _META).write_text(meta)

    return format_


def _value(name: str, properties: str) -> str:
    found = re.search(rf"^{re.escape(name)}=(.+)$", properties, re.MULTILINE)
    assert found is not None, f"{name} is not in {properties}"
    return found[1]
