"""Where this installation's events may go, by its settings. For whatever sends to subscribers outside of a worker."""

from __future__ import annotations

from agents.http.egress_guard import EgressConfig, EgressGuard
from app.settings.load import Settings


def guard_of(settings: Settings) -> EgressGuard:
    """The guard that every sender asks."""
    return EgressGuard(
        EgressConfig(
            allow_loopback=settings.egress_allow_loopback,
            allow_private=settings.egress_allow_private,
            deny=settings.egress_deny,
        )
    )
