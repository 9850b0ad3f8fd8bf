"""Creates the resources for a benchmark, runs a controller until it has published them, and exits.

The start offsets are committed when this ends, so that events stored afterwards are delivered. It does not
keep running: only the measured workers run during a measurement.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.processes import Failed, Worker, wait_until

_ORDER = "kafka.eventing.knative.dev/delivery.order"
_CONCURRENCY = "penstock.dev/concurrency"
_LIMIT_S = 120.0
_END_S = 10.0


def documents(topic: str, partitions: int, subscriptions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the channel `<namespace>.<name>` and its Subscriptions, as people write them."""
    namespace, _, channel = topic.partition(".")
    manifests: list[dict[str, Any]] = [
        {
            "apiVersion": "messaging.knative.dev/v1beta1",
            "kind": "KafkaChannel",
            "metadata": {"namespace": namespace, "name": channel},
            "spec": {"numPartitions": partitions, "replicationFactor": 1},
        }
    ]
    for subscription in subscriptions:
        delivery = {
            "retry": subscription["retry"],
            "backoffPolicy": "linear",
            "backoffDelay": f"PT{subscription['backoff_s']}S",
        }
        if subscription["dead_letter_url"]:
            delivery["deadLetterSink"] = {"uri": subscription["dead_letter_url"]}
        annotations = {_ORDER: subscription["order"], _CONCURRENCY: str(subscription["in_flight"])}
        manifests.append(
            {
                "apiVersion": "messaging.knative.dev/v1",
                "kind": "Subscription",
                "metadata": {"namespace": namespace, "name": subscription["name"], "annotations": annotations},
                "spec": {
                    "channel": {
                        "apiVersion": "messaging.knative.dev/v1beta1",
                        "kind": "KafkaChannel",
                        "name": channel,
                    },
                    "subscriber": {"uri": subscription["url"]},
                    "delivery": delivery,
                },
            }
        )
    return manifests


def published(state: Path, kind: str, name: str, condition: str) -> bool:
    """Returns whether the status of an object says so."""
    path = state / kind / f"{name}.json"
    if not path.exists():
        return False
    conditions = json.loads(path.read_text())["status"]["conditions"]
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def publish(
    kafka: str, folder: Path, resources: Path, env: Mapping[str, str], statuses: Sequence[tuple[str, str, str]]
) -> None:
    """Run a controller until all `statuses` (kind, name, condition) are true. Raises Failed."""
    state = Path(env["PENSTOCK_STATE_DIR"])
    # Nothing passes here, and traffic windows would take a while to end.
    with Worker("controller", kafka, folder, resources, {**env, "PENSTOCK_TRAFFIC": "false"}) as worker:

        def done() -> bool:
            return all(published(state, *status) for status in statuses)

        wait_until("the controller has published everything", lambda: done() or not worker.running, _LIMIT_S)
        if not done():
            raise Failed(worker.tail())
        # What it has published stays; the end of a controller is not what is measured, and must not cost a measure.
        try:
            worker.terminate(_END_S)
        except Failed as error:
            sys.stderr.write(f"the controller is killed: {error}\n")


def main() -> int:
    """Does what the variables of the benchmark say."""
    environment = os.environ
    folder, topic = Path(environment["BENCH_DIR"]), environment["BENCH_TOPIC"]
    subscriptions = json.loads(Path(environment["BENCH_SUBSCRIPTIONS"]).read_text())
    manifests = documents(topic, int(environment["BENCH_PARTITIONS"]), subscriptions)
    resources = folder / "resources"
    resources.mkdir(exist_ok=True)
    (resources / "all.yaml").write_text(yaml.safe_dump_all(manifests))
    settings = {
        name: environment[name]
        for name in ("PENSTOCK_INSTANCE", "PENSTOCK_TOPIC_TEMPLATE", "PENSTOCK_STATE_DIR", "PENSTOCK_BIND")
    }
    statuses = [("KafkaChannel", topic, "ContractPublished")]
    statuses += [("Subscription", f"bench.{subscription['name']}", "AddedToChannel") for subscription in subscriptions]
    try:
        publish(environment["BENCH_KAFKA"], folder, resources, settings, statuses)
    except Failed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
