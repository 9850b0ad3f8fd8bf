"""The still picture: well-formed, nothing on top of anything else, the same every time."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.topology.report import render
from analytics.topology.report.layers import Box, Link
from analytics.topology.report.pagegraph import gather
from analytics.topology.report.picture import BOXES_MAX, FLOWS_MAX, GROUPS_MAX, Picture, picture
from analytics.topology.report.placing import Arrangement, arrange
from analytics.topology.report.style import STYLE
from tests.support import topologies
from tests.support.profiles import examples
from tests.unit.analytics.topology.report.page_reader import read_page

SPACE = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[Link]]:
    """Any graph with loops, parallel links and links to itself."""
    count = draw(st.integers(1, 14))
    swimlanes = draw(st.integers(1, 3))
    places = st.integers(0, count - 1)
    boxes = [Box(draw(st.floats(60, 200)), 40.0, draw(st.integers(0, swimlanes - 1))) for _ in range(count)]
    ends = draw(st.lists(st.tuples(places, places, st.sampled_from([0.0, 50.0])), max_size=30))
    return boxes, [Link(*one) for one in ends]


def over(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    """Whether two rectangles (left, top, right, bottom) share more than an edge."""
    return one[0] < other[2] - 0.2 and other[0] < one[2] - 0.2 and one[1] < other[3] - 0.2 and other[1] < one[3] - 0.2


@examples(150)
@given(graphs())
def test_no_box_or_label_lies_on_another(graph: tuple[list[Box], list[Link]]) -> None:
    boxes, links = graph
    shown = arrange(boxes, links)
    rectangles = [
        (x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2)
        for box, (x, y) in zip(boxes, shown.boxes, strict=True)
    ]
    rectangles += [
        (x - link.label_width / 2, y - 8, x + link.label_width / 2, y + 8)
        for link, route in zip(links, shown.routes, strict=True)
        if route.label is not None
        for x, y in (route.label,)
    ]

    assert not any(over(one, other) for one, other in combinations(rectangles, 2))
    for left, top, right, bottom in rectangles:
        assert 0 <= left <= right <= shown.width
        assert 0 <= top <= bottom <= shown.height


@examples(80)
@given(graphs())
def test_boxes_stay_in_their_swimlanes_and_links_join_their_ends(graph: tuple[list[Box], list[Link]]) -> None:
    boxes, links = graph
    shown = arrange(boxes, links)

    for box, (_, y) in zip(boxes, shown.boxes, strict=True):
        top, bottom = shown.swimlanes[box.swimlane]
        assert top + STYLE.swimlane_head - 0.1 <= y - box.height / 2
        assert y + box.height / 2 <= bottom + 0.1
    assert all(bottom < top for (_, bottom), (top, _) in pairwise(shown.swimlanes))
    for link, route in zip(links, shown.routes, strict=True):
        for end, (x, y) in ((link.source, route.points[0]), (link.target, route.points[-1])):
            middle_x, middle_y = shown.boxes[end]
            assert y == pytest.approx(middle_y)
            assert abs(x - middle_x) == pytest.approx(0 if link.source == link.target else boxes[end].width / 2)


def test_a_chain_runs_from_left_to_right_and_only_what_closes_its_loop_runs_back() -> None:
    boxes = [Box(100, 40) for _ in range(4)]
    shown = arrange(boxes, [Link(0, 1), Link(1, 2), Link(2, 3), Link(3, 1)])

    assert [x for x, _ in shown.boxes] == sorted(x for x, _ in shown.boxes)
    assert [route.turned for route in shown.routes] == [False, False, False, True]


def test_a_long_chain_needs_no_deep_stack() -> None:
    count = 1_200
    shown = arrange([Box(10, 10) for _ in range(count)], [Link(one, one + 1) for one in range(count - 1)])

    assert len({x for x, _ in shown.boxes}) == count


def test_two_columns_are_drawn_without_a_crossing_where_there_is_a_way() -> None:
    order = list(range(12))
    random.Random(3).shuffle(order)
    boxes = [Box(80, 40) for _ in range(24)]
    shown = arrange(boxes, [Link(one, 12 + order[one]) for one in range(12)])
    heights = sorted((shown.boxes[one][1], shown.boxes[12 + order[one]][1]) for one in range(12))

    assert [right for _, right in heights] == sorted(right for _, right in heights)
    assert all(other[0] - one[0] >= 40 + STYLE.gap_y - 0.1 for one, other in pairwise(heights))


@pytest.mark.parametrize("sample", ["empty", "quickstart", "shop", "hostile"])
def test_the_svg_is_well_formed_and_has_a_box_for_each_vertex(sample: str) -> None:
    topology = getattr(topologies, sample)()
    source = render(topology)
    if sample == "empty":
        assert 'class="picture"' not in source
        return
    tree = ElementTree.fromstring(read_page(source).picture)
    names = [text.text for text in tree.iter(f"{SPACE}text") if text.get("class") == "name"]

    assert len(names) == len(topology.vertices)
    assert not list(tree.iter(f"{SPACE}script"))
    assert {one.get("href", "")[:3] for one in tree.iter(f"{SPACE}a")} <= {"#v-"}


def test_many_vertices_are_drawn_as_their_namespaces() -> None:
    shown = picture(gather(topologies.large(1_500, namespaces=50)))

    assert len(shown.shapes) == GROUPS_MAX
    assert len(shown.arrows) <= FLOWS_MAX
    assert "1,500 vertices are grouped by namespace" in shown.note
    assert "15 namespaces of least importance are drawn as one" in shown.note
    assert any(shape.name == "15 other namespaces" for shape in shown.shapes)
    assert not _overlaps(shown)


def test_what_nothing_joins_stands_in_rows() -> None:
    shown = picture(gather(topologies.large(BOXES_MAX + 10, namespaces=300)))

    assert not _overlaps(shown)
    assert shown.width < 2_000


def _overlaps(shown: Picture) -> list[tuple[str, str]]:
    placed = [(one.x, one.y, one.x + one.width, one.y + one.height) for one in shown.shapes]
    names = [one.name for one in shown.shapes]
    return [
        (names[one], names[other])
        for one, other in combinations(range(len(placed)), 2)
        if over(placed[one], placed[other])
    ]


def test_the_same_graph_is_drawn_the_same_way() -> None:
    boxes = [Box(90, 40, one % 2) for one in range(20)]
    links = [Link(one, (one * 7 + 3) % 20, 40.0) for one in range(20)]

    first: Arrangement = arrange(boxes, links)
    assert first == arrange(boxes, links)
