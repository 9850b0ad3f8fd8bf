"""Who may hold a Lease: what to do next, from the Lease as it was read and from how long it has not changed. Pure.

    nobody's, released, or not renewed for its whole duration -> take      mine -> renew      another's -> wait

Clocks of two machines are never compared: a candidate waits for the duration by its own clock, from the moment when it
first saw the Lease in its present state. Each write carries the version that was read, so of two that write one fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.timing import LEASE_S
from knative import timefmt


def lease_path(namespace: str, instance: str) -> str:
    """Returns where the Lease of an installation's controllers is."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{instance}-controller"


class Move(Enum):
    """What a candidate does with the Lease."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read."""

    holder: str
    duration_s: int
    transitions: int
    acquired: str
    version: str
    renewed: str = ""

    @property
    def released(self) -> bool:
        """Whether its holder gave it up."""
        return not self.holder


def read_lease(raw: Mapping[str, Any]) -> LeaseView:
    """Returns a Lease of the API server; fields may be missing."""
    spec = raw.get("spec") or {}
    return LeaseView(
        holder=str(spec.get("holderIdentity") or ""),
        duration_s=int(spec.get("leaseDurationSeconds") or LEASE_S),
        transitions=int(spec.get("leaseTransitions") or 0),
        acquired=str(spec.get("acquireTime") or ""),
        renewed=str(spec.get("renewTime") or ""),
        version=str((raw.get("metadata") or {}).get("resourceVersion") or ""),
    )


def next_move(lease: LeaseView | None, me: str, unchanged_s: float) -> Move:
    """Returns what a candidate does next. `lease`: None = there is none. `unchanged_s`: how long this process has seen
    the Lease unchanged."""
    if lease is None:
        return Move.CREATE
    if lease.holder == me:
        return Move.RENEW
    if lease.released or unchanged_s >= lease.duration_s:
        return Move.TAKE
    return Move.WAIT


def lease_object(
    namespace: str, name: str, holder: str, now: float, before: LeaseView | None, *, taken: bool
) -> dict[str, Any]:
    """Returns the Lease to write. `taken`: it changes hands. `holder` "" gives it up. `now`: Unix seconds."""
    stamp = timefmt.in_microseconds(now)
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if before is not None:
        metadata["resourceVersion"] = before.version
    spec: dict[str, Any] = {
        "leaseDurationSeconds": LEASE_S if holder else 1,
        "renewTime": stamp,
        "leaseTransitions": (before.transitions if before else 0) + taken,
    }
    if holder:
        spec["holderIdentity"] = holder
        spec["acquireTime"] = stamp if taken or before is None or not before.acquired else before.acquired
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
