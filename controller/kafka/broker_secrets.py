"""Which Secrets of Brokers are not in PENSTOCK_KAFKA_SECRETS, or not valid. Does not ask Kafka: workers do that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.plan.actions import AnyObject
from knative.contract.broker_secrets import SecretProblem
from knative.resources.brokers import SECRET_KEY
from knative.resources.values import ConfigMap
from tables.kafka.broker_secrets import read_broker_secret


async def secret_problems(objects: Iterable[AnyObject], root: Path | None) -> Mapping[str, SecretProblem]:
    """By reference. `root` None: Secrets are not used."""
    named = {
        f"{one.resource.namespace}/{name}"
        for one in objects
        if isinstance(one.resource, ConfigMap) and (name := one.resource.data.get(SECRET_KEY, "").strip())
    }
    return await asyncio.to_thread(_read, sorted(named), root) if named and root is not None else {}


def _read(references: Iterable[str], root: Path) -> dict[str, SecretProblem]:
    found = {reference: read_broker_secret(root, reference) for reference in references}
    return {reference: one for reference, one in found.items() if isinstance(one, SecretProblem)}
