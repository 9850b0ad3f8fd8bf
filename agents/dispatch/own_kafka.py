"""What the Secret of a Broker gives its Triggers. In a module of its own, because ingress uses such Secrets too, and
imports nothing that delivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from knative.contract.broker_secrets import SecretProblem
from knative.ports import Produce


@dataclass(frozen=True, slots=True, eq=False)
class OwnKafka:
    """What uses the Secret of a Broker, for its Triggers in place of what the context has."""

    kafka: Mapping[str, Any]
    produce: Produce


class Secrets(Protocol):
    """The Secrets of Brokers."""

    def get(self, reference: str) -> OwnKafka | SecretProblem:
        """Returns what uses a Secret; always the same object, until the contract does not refer to it. Or why it cannot
        be used, or cannot yet."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when `get` may have another answer."""
