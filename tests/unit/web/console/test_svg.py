"""Charts: what they show of a series."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.console.svg import sparkline


@pytest.mark.parametrize(
    ("series", "line"),
    [
        ([], "M-1 98h3"),
        ([0.0, 0.0], "M-1 98h3"),
        ([0.0, 4.0, 2.0], "M-1 102V98h1l0 0 1 -96 1 48h1V102"),
        ([5.0], "M-1 102V2h1l0 0h1V102"),
    ],
)
def test_line_has_a_step_for_each_value(series: list[float], line: str) -> None:
    assert f'<path d="{line}"/>' in sparkline(series)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=90))
def test_every_chart_is_xml_and_stays_in_its_box(series: list[float]) -> None:
    chart = ElementTree.fromstring(sparkline(series))
    drawn = re.fullmatch(r"M-1 102V(\d+)h1l0 0((?: 1 -?\d+)*)h1V102", chart[0].attrib["d"])
    if drawn is None:
        assert (max(series), chart[0].attrib["d"]) == (0.0, "M-1 98h3")
        return
    height, steps = int(drawn[1]), [int(step) for step in drawn[2].split()[1::2]]

    assert len(steps) == len(series) - 1
    for step in steps:
        height += step
        assert 2 <= height <= 98
