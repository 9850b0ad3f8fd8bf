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
def test_the_conditions_of_an_object(kind: str, row: Row) -> None:
    status = row.status()
    assert status.kind == kind
    assert said(row) == row.text
    assert status.generation == row.objects[0].generation
    assert all(one.message for one in status.conditions if one.reason), "a reason comes with what to do"


#: Reasons in the reference that belong to a cluster's objects, which are read before anything is planned.
_OF_THE_SOURCE = {"SpecInvalid", "FinalizerForbidden", "StatusForbidden", "ClassNotServed", "KafkaNamespaced"}


def test_every_reason_of_the_reference_has_a_row_and_every_reason_of_a_row_is_in_the_reference() -> None:
    text = (REPOSITORY / "docs" / "reference" / "resources.md").read_text("utf-8")
    section = re.search(r"^## Conditions\n(.*?)^## |^## Conditions\n(.*)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    words = set(re.findall(r"`([A-Z][A-Za-z]+)`", section[0]))
    conditions = [one for rows in ROWS.values() for row in rows for one in row.status().conditions]
    types, reasons = {one.type for one in conditions}, {one.reason for one in conditions} - {""}
    assert types <= words
    assert words - types - _OF_THE_SOURCE == reasons


def said(row: Row) -> str:
    """Conditions by status and reason, in the order of the status, without those that are plain True."""
    groups: dict[str, list[str]] = {}
    for one in row.status().conditions:
        if one.type == "Ready" or (one.status is not TRUE or one.reason not in ("", "DeadLetterTopicUsed")):
            groups.setdefault(f"{one.status} {one.reason}".strip(), []).append(one.type)
    return "; ".join(f"{what}: {', '.join(types)}" for what, types in groups.items())
