"""The document of a large map: findings, rankings, reach and islands of the whole, and the part that they name."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.topology import findings, selection
from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Flow, to_json
from analytics.topology.model.inputs import Inputs
from tests.support.planted_faults import World, faulty, healthy
from tests.support.topology_worlds import worlds

_SHOWN = {"vertices", "edges", "method", "partial"}


def check_part(inputs: Inputs) -> None:
    """Of a part that is shown, everything is found; what is named is there; nothing else is."""
    part, whole = build(inputs, LocalEngine(), whole=0), build(inputs, LocalEngine())

    mine, theirs = (orjson.loads(to_json(topology)) for topology in (part, whole))
    assert {key: mine[key] for key in mine.keys() - _SHOWN} == {key: theirs[key] for key in theirs.keys() - _SHOWN}
    assert (part.partial, whole.partial) == (part.method != whole.method, False)
    vertices = {vertex.id for vertex in part.vertices}
    edges = {edge.id for edge in part.edges}
    assert vertices <= {vertex.id for vertex in whole.vertices}
    assert edges <= {edge.id for edge in whole.edges}
    assert all({edge.source, edge.target} <= vertices for edge in part.edges)
    assert {id_ for finding in part.findings for id_ in finding.objects} <= vertices
    assert {id_ for finding in part.findings for id_ in finding.edges} <= edges
    assert {rank.id for ranking in part.rankings for rank in ranking.rows} <= vertices
    assert {start.source for start in part.reach} <= vertices


@pytest.mark.parametrize("busiest", [0, 1, 2_000])
@given(world=worlds(), counted=st.booleans(), namespace=st.sampled_from(["", "a"]))
def test_any_part_is_whole_in_itself(busiest: int, world: World, counted: bool, namespace: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "BUSIEST_MAX", busiest)
        patch.setattr(selection, "ARRIVALS_MAX", busiest)
        check_part(world.inputs(counted, namespace))


@pytest.mark.parametrize("inputs", [faulty().inputs(), faulty().inputs(False, workers=0), healthy().inputs()])
def test_every_fault_is_in_the_part(monkeypatch: pytest.MonkeyPatch, inputs: Inputs) -> None:
    monkeypatch.setattr(selection, "BUSIEST_MAX", 1)
    check_part(inputs)


def large(channels: int) -> Inputs:
    """So many channels with two subscriptions each, that share a sink. Nothing is wrong but one reply."""
    world = World()
    for number in range(channels):
        world.channel(f"c-{number}").sent(f"c-{number}", f"/source-{number % 50}", 60)
        for side in "ab":
            name = f"s-{number}-{side}"
            reply = f"c-{number}" if (number, side) == (7, "a") else ""
            world.subscription(name, f"c-{number}", f"http://{name}", reply=reply, sink="http://graveyard")
            world.settled(name, 60)
    return world.inputs()


def test_part_does_not_grow_with_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a map of twice the size, as much is shown; the sentence says how much that is."""
    monkeypatch.setattr(selection, "BUSIEST_MAX", 5)
    monkeypatch.setattr(selection, "ARRIVALS_MAX", 5)
    parts = [build(large(channels), LocalEngine(), whole=100) for channels in (200, 400)]

    for part in parts:
        ids = {finding.id for finding in part.findings}
        assert ids == {"self-reply:channel:test/c-7", "single-point:uri:http://graveyard"}
    sizes = [sum(edge.kind is not Flow.PUBLISHES for edge in part.edges) for part in parts]
    assert sizes[0] == sizes[1] < 200
    assert [part.method[-1].partition(".")[0] for part in parts] == ["The map has 1651 edges", "The map has 3251 edges"]


def test_too_many_findings_of_one_rule_are_shown_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "FINDINGS_MAX", 3)
    world = World().channel("news").subscription("s", "news", "http://x")
    for number in range(5):
        world.channel(f"unread-{number}")

    topology = build(world.inputs(counted=False), LocalEngine())

    assert [finding.id for finding in topology.findings] == [f"unread:channel:test/unread-{n}" for n in range(3)]
    assert "5 findings of the rule unread; the first 3 are shown." in topology.method
