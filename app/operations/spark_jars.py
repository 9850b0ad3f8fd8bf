"""Finds or downloads the jars for Spark, and makes the session options from the settings and the command line.

.penstock/spark/libs-<hash>   downloaded by `make jars` or by the first job, with progress lines
PENSTOCK_SPARK_JARS           folders with more jars (GraphFrames), or with all jars on a machine without network
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from analytics.spark.session import LOOPBACK, SparkOptions, missing_connector
from app.local.kafka.jar_sets import SPARK
from app.local.kafka.jars import Progress, ensure_jars
from app.settings import load_settings
from app.settings.environment import started_by_spark_submit
from knative.errors import NotReadyError, UsageError
from tables.timing import ANSWER_S

JARS_ROOT = Path(".penstock/spark")
_PORTS = {"spark": 7077, "sc": 15002}
_ABSENT = {
    "spark": (
        "Spark master",
        "Check that it runs, and that the address is the one in its log (spark://HOST:PORT).",
    ),
    "sc": ("Spark Connect server", "Start a server with start-connect-server.sh of Spark, or remove --remote."),
}


def jar_places(extra: Sequence[Path] = (), progress: Progress | None = None, root: Path = JARS_ROOT) -> list[Path]:
    """Returns folders that together contain the Kafka connector: `extra` and those of the settings, and ours if needed.

    Downloads ours when they are missing. Empty under spark-submit, which has jars of its own. Raises PenstockError
    with a hint.
    """
    if started_by_spark_submit():
        return []
    settings = load_settings()
    places = [*extra, *settings.spark_jars]
    if missing_connector(places):
        places.append(ensure_jars(root, progress, jars=SPARK))
    return places


def spark_options(
    app_name: str,
    master: str = "",
    remote: str = "",
    *,
    jars: Sequence[Path],
    driver_host: str | None = None,
    driver_memory: str = "1g",
    conf: Mapping[str, str] | None = None,
) -> SparkOptions:
    """Returns the options of a command's session; "" or None = not given."""
    settings = load_settings()
    return SparkOptions(
        app_name=app_name,
        submitted=started_by_spark_submit(),
        master=None if remote else master or settings.spark_master,
        remote=remote or None,
        jars=tuple(jars),
        driver_host=driver_host or LOOPBACK,
        driver_memory=driver_memory,
        settings=dict(conf or {}),
    )


def check_place(address: str) -> str | None:
    """Check by a TCP connection that a stand-alone master or a Spark Connect server answers.

    Returns the address of this machine in that connection, at which a cluster's workers most likely reach it; None for
    other kinds of address, which are not checked. Spark itself would try for minutes. Raises NotReadyError when none of
    them answers.
    """
    kind, separator, places = address.partition("://")
    if not separator or kind not in _PORTS or started_by_spark_submit():
        return None
    try:
        parts = [urlsplit(f"//{place}") for place in places.split(",")]
        addresses = [(part.hostname or "", part.port or _PORTS[kind]) for part in parts]
    except ValueError:
        raise UsageError(f"{address!r} is not a valid address.", f"Write {kind}://HOST:{_PORTS[kind]}.") from None
    why = ""
    for place in addresses:
        try:
            with socket.create_connection(place, timeout=ANSWER_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as problem:
            why = problem.strerror or str(problem)
    what, hint = _ABSENT[kind]
    raise NotReadyError(f"No {what} answers at {address} ({why}).", hint)
