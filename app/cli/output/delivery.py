"""The delivery of a subscription as one cell: what applies, and where each field comes from."""

from __future__ import annotations

from knative.contract.records import TRIGGER, Subscription
from knative.resources.effective_delivery import FIELDS, SINK


def describe_delivery(record: Subscription) -> str:
    """`own: retry=2; broker: timeout=30s; default: backoffPolicy=exponential, ...`."""
    texts = {}
    for field, name in FIELDS.items():
        value = getattr(record.delivery, field)
        if value is not None:
            texts[name] = f"{name}={value:g}s" if field.endswith("_s") else f"{name}={value}"
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(_origin(record, name), []).append(text)
    order = ("own", _shared(record), "default")
    return "; ".join(f"{origin}: {', '.join(groups[origin])}" for origin in order if origin in groups)


def describe_dead_letters(record: Subscription) -> str:
    """Where dead letters go: the sink and whose it is, or the DLQ topic."""
    sink = record.delivery.dead_letter_sink
    return record.dlq_topic if sink is None else f"{sink.shown} ({_origin(record, SINK)})"


def _origin(record: Subscription, name: str) -> str:
    if name in record.delivery_own:
        return "own"
    return _shared(record) if name in record.delivery_inherited else "default"


def _shared(record: Subscription) -> str:
    return "broker" if record.kind == TRIGGER else "channel"
