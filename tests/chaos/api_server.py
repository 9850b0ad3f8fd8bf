"""The API server of a cluster is away under load, and loses its history: no event is lost, and no change is.

    python -m tests.chaos.api_server [--seconds 120]

One Kafka, one cluster, one worker in the role all, which loses its Lease meanwhile. The short form is in
`tests/cluster/test_failures.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tests.support.kube.cluster import KubeCluster, cluster_with_kafka
from tests.support.kube.penstock import LIMIT_S, PenstockInCluster, converges
from tests.support.processes import Failed, LoadProcess, SinkProcess

_RATE = 100
_LOOK_S = 10.0  #: between two of these, events are delivered


def away(kube: KubeCluster, bootstrap: str, folder: Path, seconds: float) -> dict[str, Any]:
    """The API server is killed for this long. Raises Failed if events or changes are lost; returns figures."""
    penstock = PenstockInCluster(kube, bootstrap, folder)
    with SinkProcess(folder) as sink, penstock.worker() as worker:

        def stats() -> dict[str, int]:
            counts: dict[str, int] = sink.stats().get("billing", {"delivered": 0, "distinct": 0, "duplicates": 0})
            return counts

        worker.wait_ready()
        penstock.channel("orders", 2)
        penstock.channel("goes")
        penstock.subscription("billing", "orders", {"uri": sink.url("billing")})
        penstock.wait_ready("Subscription", "billing")
        penstock.wait_ready("KafkaChannel", "goes")
        url = worker.url("orders", penstock.namespace)
        with LoadProcess(folder, url, events=0, keys=50, rate=_RATE, limit_s=seconds + LIMIT_S) as load:
            penstock.wait("events are delivered", lambda: stats()["delivered"] > 0)
            kube.api_server.kill()
            first, ends_s = stats()["delivered"], time.monotonic() + seconds
            while (left_s := ends_s - time.monotonic()) > 0:
                before = stats()["delivered"]
                time.sleep(min(_LOOK_S, left_s))
                if stats()["delivered"] == before:
                    raise Failed(f"no event was delivered without an API server\n{worker.tail()}")
            during = stats()["delivered"] - first
            kube.start_api_server()
            kube.compact()
            penstock.channel("new")
            penstock.subscription("audit", "orders", {"uri": sink.url("audit")})
            penstock.delete("KafkaChannel", "goes")
            added = ("True", "")

            def caught_up() -> bool:
                return (
                    penstock.is_published("new")
                    and penstock.condition("Subscription", "audit", "AddedToChannel") == added
                    and not penstock.exists("goes")
                )

            converges("what has changed", caught_up)
            load.process.terminate()
            result = load.result(LIMIT_S)
        accepted = result["accepted"]
        penstock.wait("all events are delivered", lambda: stats()["distinct"] >= accepted)
        counts = stats()
        if (result["sent"], counts["distinct"], counts["duplicates"]) != (accepted, accepted, 0):
            raise Failed(f"{result}; of these were delivered: {counts}\n{worker.tail()}")
        if (code := worker.terminate()) != 0:
            raise Failed(f"the worker ended with {code}\n{worker.tail()}")
        return {"seconds": seconds, "events": accepted, "delivered_meanwhile": during}


def main() -> None:
    """The command line; prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="so long there is no API server")
    given = parser.parse_args()
    with cluster_with_kafka() as (kube, kafka, folder):
        print(json.dumps(away(kube, kafka.bootstrap, folder / "run", given.seconds)))


if __name__ == "__main__":
    main()
