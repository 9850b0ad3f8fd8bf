"""The delivery that applies, as rows: what a subscription has written, what its channel or broker gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knative.delivery.policy import BackoffPolicy, DeliveryFormat, DeliverySpec
from knative.resources.destination import Destination
from knative.resources.effective_delivery import effective_delivery
from knative.resources.values import DeliveryRules

SETTINGS = DeliverySpec(retry=10)
OWN_SINK, SHARED_SINK = Destination(uri="http://own/"), Destination(uri="http://shared/")
SHARED = DeliveryRules(3, BackoffPolicy.LINEAR, 0.5, 7.0, 9.0, DeliveryFormat.JSON, SHARED_SINK)
SHARED_SPEC = DeliverySpec(3, BackoffPolicy.LINEAR, 0.5, 7.0, 9.0, format=DeliveryFormat.JSON)
EVERY = ("retry", "backoffPolicy", "backoffDelay", "timeout", "retryAfterMax", "format", "deadLetterSink")


@pytest.mark.parametrize("by_field", [True, False])
def test_one_delivery_alone_applies_whole(by_field: bool) -> None:
    neither = effective_delivery(None, None, SETTINGS, by_field=by_field)
    assert (neither.spec, neither.dead_letter_sink, neither.own, neither.inherited) == (SETTINGS, None, (), ())
    shared = effective_delivery(None, SHARED, SETTINGS, by_field=by_field)
    assert (shared.spec, shared.dead_letter_sink) == (SHARED_SPEC, SHARED_SINK)
    assert (shared.own, shared.inherited) == ((), EVERY)
    own = effective_delivery(SHARED, None, SETTINGS, by_field=by_field)
    assert (own.spec, own.dead_letter_sink, own.own, own.inherited) == (SHARED_SPEC, SHARED_SINK, EVERY, ())
    empty = effective_delivery(DeliveryRules(), None, SETTINGS, by_field=by_field)
    assert empty.spec == DeliverySpec(), "a delivery without fields has their defaults, not the settings"


@pytest.mark.parametrize(
    ("own", "spec", "sink", "names"),
    [
        (DeliveryRules(retry=2), replace(SHARED_SPEC, retry=2), SHARED_SINK, ("retry",)),
        (DeliveryRules(retry=0), replace(SHARED_SPEC, retry=0), SHARED_SINK, ("retry",)),
        (DeliveryRules(timeout_s=30.0), replace(SHARED_SPEC, timeout_s=30.0), SHARED_SINK, ("timeout",)),
        (
            DeliveryRules(retry_after_max_s=0.0),
            replace(SHARED_SPEC, retry_after_max_s=0.0),
            SHARED_SINK,
            ("retryAfterMax",),
        ),
        (DeliveryRules(dead_letter_sink=OWN_SINK), SHARED_SPEC, OWN_SINK, ("deadLetterSink",)),
        (DeliveryRules(), SHARED_SPEC, SHARED_SINK, ()),
    ],
)
def test_trigger_inherits_each_field_that_it_has_not(
    own: DeliveryRules, spec: DeliverySpec, sink: Destination, names: tuple[str, ...]
) -> None:
    delivery = effective_delivery(own, SHARED, SETTINGS, by_field=True)
    assert (delivery.spec, delivery.dead_letter_sink, delivery.own) == (spec, sink, names)
    assert delivery.inherited == tuple(name for name in EVERY if name not in names)


@pytest.mark.parametrize(
    ("own", "spec", "sink", "inherited"),
    [
        (DeliveryRules(retry=2), DeliverySpec(retry=2), SHARED_SINK, ("deadLetterSink",)),
        (DeliveryRules(timeout_s=30.0), DeliverySpec(timeout_s=30.0), SHARED_SINK, ("deadLetterSink",)),
        (DeliveryRules(dead_letter_sink=OWN_SINK), DeliverySpec(), OWN_SINK, ()),
        (DeliveryRules(), DeliverySpec(), SHARED_SINK, ("deadLetterSink",)),
    ],
)
def test_subscription_inherits_only_the_dead_letter_sink(
    own: DeliveryRules, spec: DeliverySpec, sink: Destination, inherited: tuple[str, ...]
) -> None:
    delivery = effective_delivery(own, SHARED, SETTINGS, by_field=False)
    assert (delivery.spec, delivery.dead_letter_sink, delivery.inherited) == (spec, sink, inherited)
