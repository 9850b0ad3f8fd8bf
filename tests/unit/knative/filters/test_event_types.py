"""What a filter says of a type holds for every event of the type, as workers judge it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.filters.dialects import ALL_EVENTS, Any_, Filter, from_json
from knative.filters.event_types import passes
from knative.filters.matching import compile_filter

PAID = {"exact": {"type": "order.paid"}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"all": []}, True),
        ({"any": []}, False),
        (PAID, True),
        ({"exact": {"type": "order.created"}}, False),
        ({"exact": {"type": "order.paid", "source": "/web"}}, None),
        ({"exact": {"type": "order", "source": "/web"}}, False),
        ({"attributes": {"type": ""}}, True),
        ({"attributes": {"type": "Order.paid"}}, False),
        ({"prefix": {"type": "order."}}, True),
        ({"suffix": {"type": ".created"}}, False),
        ({"prefix": {"subject": "a"}}, None),
        ({"not": PAID}, False),
        ({"not": {"cesql": "type = 'order.paid'"}}, None),
        ({"any": [{"cesql": "TRUE"}, PAID]}, True),
        ({"any": [{"cesql": "TRUE"}, {"not": PAID}]}, None),
        ({"all": [{"cesql": "TRUE"}, {"not": PAID}]}, False),
        ({"all": [{"cesql": "TRUE"}, PAID]}, None),
    ],
)
def test_verdict_on_a_type_is_yes_no_or_not_certain(value: dict[str, object], expected: bool | None) -> None:
    assert passes(from_json(value), "order.paid") is expected


_TEXTS = st.sampled_from(["a", "ab", "b", "ba"])
_LEAVES = st.one_of(
    st.builds(
        lambda dialect, pairs: {dialect: pairs},
        st.sampled_from(["attributes", "exact", "prefix", "suffix"]),
        st.dictionaries(st.sampled_from(["type", "source", "x"]), _TEXTS, min_size=1),
    ),
    st.builds(lambda text: {"cesql": f"type = '{text}' OR EXISTS x"}, _TEXTS),
)
_FILTERS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda dialect, parts: {dialect: parts}, st.sampled_from(["all", "any"]), st.lists(inner, max_size=3)
        ),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
).map(from_json)


@given(filter_=_FILTERS, type_=_TEXTS, others=st.dictionaries(st.sampled_from(["source", "x"]), _TEXTS))
def test_no_event_of_the_type_is_judged_otherwise(filter_: Filter, type_: str, others: dict[str, str]) -> None:
    said = passes(filter_, type_)
    compiled = compile_filter(filter_)
    judged = compiled is None or compiled.matches({**others, "type": type_})
    assert said is None or said is judged
    assert passes(ALL_EVENTS, type_) is True
    assert passes(Any_(()), type_) is False
