"""The egress guard as the settings describe it, for the worker and for commands that send to subscribers."""

from __future__ import annotations

from agents.http.egress_guard import EgressConfig, EgressGuard
from app.settings.load import Settings


def guard_of(settings: Settings) -> EgressGuard:
    """Returns the guard that every connection to a subscriber goes through."""
    return EgressGuard(
        EgressConfig(
            allow_loopback=settings.egress_allow_loopback,
            allow_private=settings.egress_allow_private,
            deny=settings.egress_deny,
        )
    )
