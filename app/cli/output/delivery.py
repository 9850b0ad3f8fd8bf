"""The delivery of a subscription as one cell: what applies, and where each field comes from."""

from __future__ import annotations

from knative.contract.records import Subscription
from tables.delivery_settings import dead_letters_to, delivery_settings, shared


def describe_delivery(record: Subscription) -> str:
    """Returns text such as `own: retry=2; broker: timeout=30s; default: backoffPolicy=exponential, ...`."""
    groups: dict[str, list[str]] = {}
    for setting in delivery_settings(record):
        groups.setdefault(setting.origin, []).append(f"{setting.name}={setting.value}")
    order = ("own", shared(record), "default")
    return "; ".join(f"{origin}: {', '.join(groups[origin])}" for origin in order if origin in groups)


def describe_dead_letters(record: Subscription) -> str:
    """Returns where dead letters go: the sink and whose it is, or the DLQ topic."""
    to = dead_letters_to(record)
    return to.value if record.delivery.dead_letter_sink is None else f"{to.value} ({to.origin})"
