"""What `penstock explain` prints: the verdict with the part that decided, the tree, the order key."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.output.explanation import as_lines
from knative.contract.explanation import Explanation, as_json, order, reason
from knative.delivery.policy import DeliveryOrder
from knative.filters import ALL_EVENTS, compile_filter, explain, from_json

_ATTRIBUTES = {"id": "1", "source": "/shop", "type": "order.created", "subject": "c-7", "amount": "120"}


def _explanation(written: dict[str, Any] | None, order: DeliveryOrder = DeliveryOrder.KEY_ORDERED) -> Explanation:
    filter_ = ALL_EVENTS if written is None else from_json(written)
    compiled = compile_filter(filter_)
    parts = () if written is None else tuple(explain(filter_, _ATTRIBUTES))
    return Explanation("default/t", compiled is None or compiled.matches(_ATTRIBUTES), parts, order, "c-7", _ATTRIBUTES)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (None, "matches: the trigger has no filter, so it gets every event"),
        ({"exact": {"type": "order.created"}}, "matches: exact: type = 'order.created' ('order.created')"),
        (
            {"attributes": {"type": "order.created", "source": "/shop"}},
            "matches: every attribute has the value of the filter",
        ),
        ({"attributes": {"source": "/shop", "type": "x"}}, "does not match: attributes: type = 'x' ('order.created')"),
        (
            {"exact": {"region": "eu"}},
            "does not match: exact: region = 'eu' (the event does not have this attribute)",
        ),
        ({"all": [{"prefix": {"type": "order."}}, {"suffix": {"type": ".test"}}]}, "does not match: suffix: type ="),
        ({"all": [{"prefix": {"type": "order."}}, {"exact": {"id": "1"}}]}, "matches: every filter of `all` matches"),
        ({"any": [{"exact": {"id": "2"}}, {"exact": {"id": "3"}}]}, "does not match: no filter of `any` matches"),
        ({"any": [{"exact": {"id": "2"}}, {"exact": {"id": "1"}}]}, "matches: exact: id = '1'"),
        ({"any": []}, "does not match: any (no filters: no event passes)"),
        ({"not": {"prefix": {"type": "order."}}}, "does not match: prefix: type = 'order.'"),
        ({"cesql": "amount > 100 AND id = '2'"}, "does not match: id = '2' (false)"),
        ({"cesql": "id = '1' OR amount > 100"}, "matches: id = '1' (true)"),
        ({"cesql": "amount > 100 AND id = '1'"}, "matches: cesql: amount > 100 AND id = '1' (true)"),
        ({"cesql": "NOT EXISTS region"}, "matches: EXISTS region (false)"),
        ({"cesql": "INT(type) = 1 OR TRUE"}, "does not match: INT(type) (cast: 'order.created' is not a valid 32-bit"),
        ({"cesql": "1 / 0 > region"}, "does not match: 1 / 0 (math: division by zero)"),
        ({"cesql": "amount > 1 XOR id = '1'"}, "does not match: cesql: amount > 1 XOR id = '1' (false)"),
    ],
    ids=str,
)
def test_verdict_names_the_part_that_decided(written: dict[str, Any] | None, says: str) -> None:
    assert reason(_explanation(written)).startswith(says)


def test_tree_has_the_value_of_each_part() -> None:
    written = {"all": [{"not": {"exact": {"type": "x"}}}, {"cesql": "amount + 1 > 200 OR EXISTS region"}]}
    assert as_lines(_explanation(written)) == [
        "default/t does not match: cesql: amount + 1 > 200 OR EXISTS region (false)",
        "",
        "✗ all",
        "  ✓ not",
        "    ✗ exact: type = 'x'   'order.created'",
        "  ✗ cesql: amount + 1 > 200 OR EXISTS region   false  <- decides",
        "    ✗ amount + 1 > 200   false",
        "      = amount + 1   121",
        "        = amount   '120'",
        "    ✗ EXISTS region   false",
        "",
        "order: key-ordered; its key is 'c-7' (subject), and the event waits for earlier events with this key",
    ]


def test_programs_get_the_same() -> None:
    document = as_json(_explanation({"exact": {"type": "x"}}))
    assert document["matches"] is False
    assert document["parts"] == [
        {"depth": 0, "part": "exact: type = 'x'", "matches": False, "found": "'order.created'", "decides": True}
    ]
    assert (document["order"], document["key"], document["key_attribute"]) == ("key-ordered", "c-7", "subject")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (DeliveryOrder.ORDERED, "before it in its partition"),
        (DeliveryOrder.UNORDERED, "does not wait for other events"),
    ],
)
def test_order_says_what_an_event_waits_for(wish: DeliveryOrder, says: str) -> None:
    assert says in order(_explanation(None, wish))
