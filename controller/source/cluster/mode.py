"""Who resolves the Subscriptions of a cluster: this controller, or Knative's core. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.source.cluster.references import find_kind, group_path
from knative.resources.values import MESSAGING

#: Where the API server lists Knative's kind Channel, if it has it.
CORE_PATH = group_path(f"{MESSAGING}/v1")
MEANS = {
    "core": "Knative's core resolves Subscriptions and writes them into spec.subscribers of their channels",
    "own": "this controller resolves Subscriptions",
}


@dataclass(frozen=True, slots=True)
class Mode:
    """Who resolves Subscriptions. `value`: core or own. `why`: a sentence."""

    value: str
    why: str


def find_mode(listed: Mapping[str, Any] | None) -> Mode:
    """Returns what `auto` means. `listed`: the answer at CORE_PATH; None = the server has no such group."""
    core = has_core(listed)
    value = "core" if core else "own"
    has = "has" if core else "does not have"
    return Mode(value, f"the cluster {has} Knative's kind Channel, so subscriptions are {value}")


def has_core(listed: Mapping[str, Any] | None) -> bool:
    """Returns whether Knative's core is there."""
    return listed is not None and find_kind(listed, f"{MESSAGING}/v1", "Channel") is not None
