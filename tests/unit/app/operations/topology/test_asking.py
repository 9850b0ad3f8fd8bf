"""The vertex that a question names, and the commands that ask, from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.topology.model.document import Kind, Vertex, to_json
from analytics.topology.selection import WHOLE_EDGES_MAX
from app.cli import cli, topology_questions
from app.operations.topology.asking import choose_vertex
from knative.errors import PenstockError, UsageError
from knative.shown import UNKNOWN
from tests.support import topologies
from tests.support.planted_faults import World
from tests.support.topologies import SHOP, small


def test_unknown_name_is_answered_with_a_similar_one() -> None:
    with pytest.raises(PenstockError, match=r"There is no vertex oders .*Did you mean orders\?"):
        choose_vertex(small(), "oders")
    with pytest.raises(PenstockError, match=r"no vertex zzz .*known: broker/shop/main.* lists them all"):
        choose_vertex(small(), "zzz")


def test_name_of_several_is_answered_with_what_to_write() -> None:
    twin = Vertex("subscription:shop/orders", Kind.SUBSCRIPTION, "shop", "orders", "shop/orders")
    topology = replace(small(), vertices=(*small().vertices, twin))

    with pytest.raises(
        UsageError, match=r"2 vertices have the name orders\. Write channel/shop/orders or subscription/"
    ):
        choose_vertex(topology, "orders")
    assert choose_vertex(topology, "channel/shop/orders").id == SHOP


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "topology.json"
    path.write_bytes(to_json(topologies.shop()))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    cli(["topology", *words], standalone_mode=False)
    return capsys.readouterr().out


def test_impact_of_a_saved_document(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "impact", "parcels", "--from", saved).splitlines()

    assert lines[0] == "channel/shipping/parcels: ok, 562/s"
    assert "Downstream: 5 vertices, 2 hops at most" in lines
    row = next(line.split() for line in lines if "http://labels.shipping.svc/print" in line)
    assert row == [
        "2",
        "subscriber",
        "http://labels.shipping.svc/print",
        "delivers",
        "failed",
        "0/s",
        "0",
        "B/s",
        UNKNOWN,
    ]
    answer = json.loads(run(capsys, "impact", "parcels", "--from", saved, "-o", "json"))
    assert answer["vertex"]["id"] == "channel:shipping/parcels"
    assert {(row["hops"], row["health"]) for row in answer["downstream"] if row["id"].endswith("/print")} == {
        (2, "failed")
    }


def test_paths_of_a_saved_document(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "path", "/web/checkout", "priced", "--from", saved)

    assert "Path 1: 3 hops from source:/web/checkout, p50 4.2 ms, p99 118 ms" in text
    assert [line.split()[-1] for line in text.splitlines() if "channel/orders/priced" in line] == ["slowest"]
    assert "No path leads from channel/orders/priced to source:/web/checkout." in run(
        capsys, "path", "priced", "/web/checkout", "--from", saved
    )
    (path,) = json.loads(run(capsys, "path", "/web/checkout", "priced", "--from", saved, "-o", "json"))["paths"]
    assert (path["latency_p99_s"], len(path["steps"])) == (0.118, 3)


def test_answer_from_a_part_of_a_map_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There may be a way from priced to checkout over what the document does not list."""
    path, words = tmp_path / "topology.json", "The document contains only a part of the map, so there may be more."
    path.write_bytes(to_json(replace(topologies.shop(), partial=True)))
    for question in (("impact", "parcels"), ("path", "/web/checkout", "priced"), ("path", "priced", "/web/checkout")):
        assert run(capsys, *question, "--from", str(path)).splitlines()[-1].endswith(words)
        assert json.loads(run(capsys, *question, "--from", str(path), "-o", "json"))["complete"] is False
    with pytest.raises(
        PenstockError, match=r"no vertex zzz in the document, which contains only a part of the map; .*Remove --fr"
    ):
        run(capsys, "impact", "zzz", "--from", str(path))


def test_answer_from_a_whole_map_does_not(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    for question in (("impact", "parcels"), ("path", "/web/checkout", "priced")):
        assert "part of the map" not in run(capsys, *question, "--from", saved)
        assert json.loads(run(capsys, *question, "--from", saved, "-o", "json"))["complete"] is True


def test_question_without_a_file_is_about_the_whole_of_a_large_map(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each subscription has three edges, and a document of so many would have some of them."""
    count = WHOLE_EDGES_MAX // 3 + 1
    world = World().channel("news")
    for number in range(count):
        world.subscription(f"s-{number}", "news", f"http://s-{number}")
    monkeypatch.setattr(topology_questions, "read_inputs", lambda query: world.inputs())

    answer = json.loads(run(capsys, "impact", "news", "-o", "json"))

    assert (len(answer["downstream"]), answer["complete"]) == (2 * count + 1, True)


def test_path_to_the_name_of_a_subscription_ends_at_its_subscriber(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where events end, with what is known of their delivery. Two subscriptions have one subscriber here."""

    def steps(start: str, end: str) -> list[list[str]]:
        lines = run(capsys, "path", start, end, "--from", saved).splitlines()
        return [line.split() for line in lines if line.startswith(("subscribes", "replies", "delivers"))]

    labels = ["delivers", "uri:http://labels.shipping.svc/print", "failed", "0/s", "20,228", "4.2", "ms", "118", "ms"]
    for name in ("print-labels", "shipping/print-labels"):
        assert [step[:9] for step in steps("parcels", name)][1:] == [labels], name
    for title in ("subscription/shipping/print-labels", "subscription:shipping/print-labels"):
        assert [step[1] for step in steps("parcels", title)] == ["subscription/shipping/print-labels"]
    assert [step[1].rpartition("/")[2] for step in steps("clicks", "warehouse")] == ["warehouse", "ingest?table=clicks"]
    assert [step[0] for step in steps("pricing", "reprice")] == ["replies", "subscribes", "delivers"]


def test_path_from_a_subscription_to_itself_is_its_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(to_json(small()))
    assert "4 hops from subscription/shop/echo" in run(capsys, "path", "echo", "echo", "--from", str(path))


def test_name_drives_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(to_json(replace(topologies.hostile(["evil\x1b[2J"]), instance="i")))
    assert "\x1b" not in run(capsys, "impact", "evil\x1b[2J", "--from", str(path))


def test_options_before_a_question_are_refused(saved: str) -> None:
    with pytest.raises(UsageError, match="--since stands before impact, where it has no effect"):
        cli(["topology", "--since", "1h", "impact", "parcels", "--from", saved], standalone_mode=False)
    with pytest.raises(UsageError, match=r"--from missing\.json cannot be read: No such file"):
        cli(["topology", "impact", "parcels", "--from", "missing.json"], standalone_mode=False)
