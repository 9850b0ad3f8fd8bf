"""Two runs compared by their figures: latency, failures per second, totals; in the terminal and in the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analytics.topology.compare import Change, compare
from analytics.topology.model.document import Edge, Topology, Window
from analytics.topology.report import render
from app.cli.output.topology import show_difference
from tests.support.topologies import SHOP, small, with_totals
from tests.unit.analytics.topology.report.page_reader import read_page

DELIVERY = "subscription:shop/echo delivers uri:http://echo.shop"


def with_delivery(topology: Topology, **figures: object) -> Topology:
    def changed(edge: Edge) -> Edge:
        return replace(edge, **figures) if edge.id == DELIVERY else edge  # type: ignore[arg-type]

    return with_totals(replace(topology, edges=tuple(map(changed, topology.edges))))


def changes(old: Topology, new: Topology) -> list[tuple[str, object, object]]:
    difference = compare(old, new)
    return [(change.what, change.before, change.after) for change in difference.changes if change.id == DELIVERY]


@pytest.mark.parametrize(
    ("figures", "reported"),
    [
        ({"latency_p99_s": 0.5}, [("latency_p99_s", 0.12, 0.5)]),
        ({"latency_p50_s": 0.3, "latency_p99_s": 0.04}, [("latency_p50_s", 0.004, 0.3), ("latency_p99_s", 0.12, 0.04)]),
        ({"latency_p99_s": 0.15}, []),  # a quarter more
        ({"latency_p50_s": 0.009}, []),  # both under 10 ms
        ({"latency_p99_s": None}, []),  # not known is not a change
        ({"failures": 60}, [("failures", 0.05, 1.0)]),
        ({"failures": 0}, [("failures", 0.05, 0.0)]),
        ({"failures": 4}, []),
    ],
)
def test_latencies_and_failures_that_change_much_are_reported(
    figures: dict[str, object], reported: list[tuple[str, object, object]]
) -> None:
    assert changes(small(), with_delivery(small(), **figures)) == reported


def test_failures_are_compared_per_second_of_the_window() -> None:
    """Ten times as many failures in a window ten times as long are no change."""
    longer = with_delivery(replace(small(), window=Window(small().window.start - 540, small().window.end)), failures=30)
    assert longer.window.seconds == 10 * small().window.seconds
    assert changes(small(), longer) == []


def test_totals_are_those_of_the_map_and_of_a_namespace_that_changed() -> None:
    whole, shop, attic = small().totals
    assert (whole.namespace, shop.namespace, attic.namespace) == ("", "shop", "attic")
    assert (whole.events, whole.deliveries, whole.lag, whole.failures) == (25.0, 24.9, 4012, 0.05)
    assert (whole.fan_out, whole.fan_out_bytes) == (0.996, round(24.9 * 1024 / 25, 6))
    assert (attic.channels, attic.events, attic.fan_out) == (1, 0.0, None)

    difference = compare(small(), with_delivery(small(), failures=60))
    assert [change for change in difference.totals if change.what == "failures"] == [
        Change("", "failures", 0.05, 1.0),
        Change("shop", "failures", 0.05, 1.0),
    ]
    assert Change("", "events", 25.0, 25.0) in difference.totals
    assert compare(small(), small()).empty


def test_terminal_and_the_page_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    new = with_delivery(small(), latency_p99_s=0.5, failures=60)
    difference = compare(small(), new)

    show_difference(difference)
    printed = capsys.readouterr().out
    assert "events in: all: 25/s\n" in printed
    assert "failures: namespace shop: 0.05/s → 1/s" in printed
    assert f"p99: {DELIVERY}: 120 ms → 500 ms" in printed
    page = read_page(render(new, difference))
    assert "Since 2026-" in "".join(page.text)
    row = next(row for row in page.source.split("<tr>") if DELIVERY in row and "<bdi>p99</bdi>" in row)
    assert "<bdi>120 ms</bdi>" in row
    assert "<bdi>500 ms</bdi>" in row
    assert ("a", (("href", "#table-changes"),)) in page.elements
    assert "table-changes" not in render(new)


def test_what_a_part_of_a_map_does_not_have_is_not_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """The part of another time has others of the same vertices, and figures of sources cover its edges only."""
    whole = with_delivery(small(), latency_p99_s=0.5)
    source, others = "source:/web", ("trigger:shop/audit", "broker:shop/main")
    vertices = (
        replace(vertex, rate=vertex.rate / 4) if vertex.id in (source, SHOP) and vertex.rate else vertex
        for vertex in whole.vertices
        if vertex.id not in others
    )
    edges = tuple(edge for edge in whole.edges if edge.source not in others)
    part = replace(whole, vertices=tuple(vertices), edges=edges, partial=True)

    for old, new in ((small(), part), (part, small())):
        difference = compare(old, new)
        assert difference.partial
        assert not difference.vertices_new + difference.vertices_gone + difference.edges_new + difference.edges_gone
        assert {change.id for change in difference.changes} == {SHOP, DELIVERY}
        show_difference(difference)
        assert "One run has only a part of a large map" in capsys.readouterr().out
        assert "One run has only a part of a large map" in render(new, difference)
    difference = compare(small(), replace(part, partial=False))
    assert difference.vertices_gone == tuple(sorted(others))
    assert source in {change.id for change in difference.changes}
    show_difference(difference)
    assert "A run has a part" not in capsys.readouterr().out
