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
        ([], "M0 98h1"),
        ([0.0, 0.0], "M0 98h1"),
        ([0.0, 4.0, 2.0], "M0 98l1 -96l1 48"),
        ([5.0], "M0 2"),
    ],
)
def test_a_line_has_a_step_for_each_value(series: list[float], line: str) -> None:
    assert f'class="line" d="{line}"' in sparkline(series)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=90))
def test_every_chart_is_xml_and_stays_in_its_box(series: list[float]) -> None:
    chart = ElementTree.fromstring(sparkline(series))
    steps = [int(step) for step in re.findall(r"l1 (-?\d+)", chart[1].attrib["d"])]
    height = int(re.findall(r"M0 (\d+)", chart[1].attrib["d"])[0])

    assert len(steps) in (0, len(series) - 1)
    for step in steps:
        height += step
        assert 2 <= height <= 98
