"""Measures what one decision of the controller costs, about everything and about one Trigger that has changed.

    python -m benchmarks.decisions [--triggers 2000,10000]

No Kafka and no cluster: the planner and the index of parts alone, with Triggers of one Broker that are served. Prints
one JSON object for each number; milliseconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller.plan.actions import AnyObject, PublishSubscription
from controller.plan.parts import Parts
from controller.plan.reconcile import reconcile
from knative.contract.records import Channel, Subscription
from knative.resources.destination import Destination
from tests.unit.controller.worlds import broker, kafka_with_ingress, serving, trigger


def measure(count: int) -> dict[str, Any]:
    """Measures one number of Triggers."""
    kafka = kafka_with_ingress()
    objects: list[AnyObject] = [broker(), *(trigger(f"n{number:05}") for number in range(count))]
    kafka.settle(*objects)
    world = kafka.look(*objects)
    world = replace(world, workers=serving(*world.subscriptions.values()))
    published: dict[str, Channel | Subscription] = {**world.channels, **world.subscriptions}
    parts = Parts(kafka.config)

    def build() -> None:
        for resource in objects:
            parts.put_object(resource.uid, resource)
        parts.follow(published, world.removals)

    changed = trigger("n00000", generation=2, subscriber=Destination(uri="http://other/"))

    def decide() -> None:
        focus = parts.renew(published, world.removals, (), {changed.uid}, lambda _: changed)
        actions = reconcile(parts.world(replace(world, objects=()), focus), kafka.config)
        assert isinstance(actions[0], PublishSubscription), actions

    return {
        "triggers": count,
        "whole_ms": _ms(lambda: reconcile(world, kafka.config)),
        "build_ms": _ms(build),
        "part_ms": min(_ms(decide) for _ in range(5)),
    }


def _ms(call: Callable[[], object]) -> float:
    began_s = time.process_time()
    call()
    return round(1000 * (time.process_time() - began_s), 1)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", default="2000,10000", help="how many, by commas")
    for count in map(int, parser.parse_args().triggers.split(",")):
        print(json.dumps(measure(count)), flush=True)


if __name__ == "__main__":
    main()
