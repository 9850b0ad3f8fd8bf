"""All conditions of each kind in every situation that the reference names, and some that follow from two of them."""

from __future__ import annotations

import re

import pytest

from knative.resources.conditions import ConditionStatus
from tests.support.processes import REPOSITORY
from tests.unit.controller.plan.condition_rows import Row
from tests.unit.controller.plan.rows_of_brokers import BROKERS
from tests.unit.controller.plan.rows_of_channels import CHANNELS
from tests.unit.controller.plan.rows_of_resets import MOVED_SUBSCRIPTION, RESETS
from tests.unit.controller.plan.rows_of_subscriptions import SUBSCRIPTIONS
from tests.unit.controller.plan.rows_of_triggers import TRIGGERS

TRUE = ConditionStatus.TRUE
ROWS = {
    "KafkaChannel": CHANNELS,
    "Broker": BROKERS,
    "Subscription": [*SUBSCRIPTIONS, MOVED_SUBSCRIPTION],
    "Trigger": TRIGGERS,
    "ResetOffset": RESETS,
}


@pytest.mark.parametrize(
    ("kind", "row"), [pytest.param(kind, row, id=f"{kind}, {row.name}") for kind, rows in ROWS.items() for row in rows]
)
def test_conditions_of_an_object(kind: str, row: Row) -> None:
    status = row.status()
    assert status.kind == kind
    assert said(row) == row.text
    assert status.generation == row.objects[0].generation
    assert all(condition.message for condition in status.conditions if condition.reason), (
        "a reason comes with what to do"
    )


#: Reasons in the reference that belong to a cluster's objects, which are read before anything is planned.
_OF_THE_SOURCE = {"SpecInvalid", "FinalizerForbidden", "StatusForbidden", "ClassNotServed", "KafkaNamespaced"}


def test_every_reason_of_the_reference_has_a_row_and_every_reason_of_a_row_is_in_the_reference() -> None:
    text = (REPOSITORY / "docs" / "reference" / "resources.md").read_text("utf-8")
    section = re.search(r"^## Conditions\n(.*?)^## |^## Conditions\n(.*)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    words = set(re.findall(r"`([A-Z][A-Za-z]+)`", section[0]))
    conditions = [condition for rows in ROWS.values() for row in rows for condition in row.status().conditions]
    types, reasons = {condition.type for condition in conditions}, {condition.reason for condition in conditions} - {""}
    assert types <= words
    assert words - types - _OF_THE_SOURCE == reasons


def said(row: Row) -> str:
    """Conditions by status and reason, in the order of the status, without those that are plain True."""
    groups: dict[str, list[str]] = {}
    for condition in row.status().conditions:
        if condition.type == "Ready" or (
            condition.status is not TRUE or condition.reason not in ("", "DeadLetterTopicUsed")
        ):
            groups.setdefault(f"{condition.status} {condition.reason}".strip(), []).append(condition.type)
    return "; ".join(f"{what}: {', '.join(types)}" for what, types in groups.items())
