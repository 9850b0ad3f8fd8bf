"""The delivery that applies: what a subscription has written, what its channel or broker gives it, and defaults.

    Trigger        field by field: its own, else the broker's, else the default
    Subscription   all of its own, else all of the channel's; without a dead letter sink of its own it has the channel's

Knative's Kafka broker and Knative's core do the same. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knative.delivery.policy import DeliverySpec
from knative.resources.destination import Destination
from knative.resources.values import DeliveryRules

SINK = "deadLetterSink"
#: Field of `DeliveryRules` and of `DeliverySpec` -> its name in a `delivery`.
FIELDS: Mapping[str, str] = {
    "retry": "retry",
    "backoff_policy": "backoffPolicy",
    "backoff_delay_s": "backoffDelay",
    "timeout_s": "timeout",
    "retry_after_max_s": "retryAfterMax",
    "format": "format",
}


@dataclass(frozen=True, slots=True)
class EffectiveDelivery:
    """What applies, and where it comes from. `own` and `inherited` are names of a `delivery`; other fields have their
    defaults."""

    spec: DeliverySpec  #: without its dead letter sink
    dead_letter_sink: Destination | None
    own: tuple[str, ...]
    inherited: tuple[str, ...]


def effective_delivery(
    own: DeliveryRules | None, shared: DeliveryRules | None, default: DeliverySpec, *, by_field: bool
) -> EffectiveDelivery:
    """Returns the delivery that applies. `shared`: of the channel or broker. `default`: if neither has a `delivery`.
    `by_field`: as for a Trigger."""
    if own is None and shared is None:
        return EffectiveDelivery(default, None, (), ())
    mine = _written(own)
    theirs = {name: value for name, value in _written(shared).items() if name not in mine}
    if own is not None and not by_field:
        theirs = {}
    sinks = [rules.dead_letter_sink if rules else None for rules in (own, shared)]
    return EffectiveDelivery(
        DeliverySpec(**{**mine, **theirs}),
        sinks[0] or sinks[1],
        (*(FIELDS[name] for name in mine), *((SINK,) if sinks[0] else ())),
        (*(FIELDS[name] for name in theirs), *((SINK,) if sinks[1] and not sinks[0] else ())),
    )


def _written(rules: DeliveryRules | None) -> dict[str, Any]:
    return {name: value for name in FIELDS if rules and (value := getattr(rules, name)) is not None}
