"""Which engine is taken, and which jars of GraphFrames are."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.topology.engines.choice import LOCAL_EDGES_MAX, EngineChoice, choose
from analytics.topology.engines.graphframes import VERSION, missing_jars
from app.cli.topology import check_jars
from knative.errors import PenstockError

AUTO, LOCAL, GRAPHFRAMES = EngineChoice.AUTO, EngineChoice.LOCAL, EngineChoice.GRAPHFRAMES
CORE, GRAPHX = f"graphframes-spark4_2.13-{VERSION}.jar", f"graphframes-graphx-spark4_2.13-{VERSION}.jar"


@pytest.mark.parametrize(
    ("wish", "edges", "why_not", "chosen", "says"),
    [
        (AUTO, 34, None, LOCAL, "The local engine walked 34 edges"),
        (AUTO, LOCAL_EDGES_MAX, None, LOCAL, "it is used for up to 10000000"),
        (AUTO, LOCAL_EDGES_MAX + 1, None, GRAPHFRAMES, "GraphFrames walked 10000001 edges"),
        (AUTO, LOCAL_EDGES_MAX + 1, "No jars.", LOCAL, "because GraphFrames cannot: No jars."),
        (LOCAL, 9 * LOCAL_EDGES_MAX, None, LOCAL, None),
        (GRAPHFRAMES, 1, None, GRAPHFRAMES, None),
    ],
)
def test_local_engine_up_to_its_size(
    wish: EngineChoice, edges: int, why_not: str | None, chosen: EngineChoice, says: str | None
) -> None:
    engine, why = choose(wish, edges, why_not)

    assert engine is chosen
    assert why is says if says is None or why is None else says in why


@pytest.mark.parametrize(
    ("jars", "says"),
    [
        ((), "graphframes-spark4_2.13:"),
        ((CORE,), f"is missing (io.graphframes:graphframes-graphx-spark4_2.13:{VERSION})"),
        ((GRAPHX,), f"is missing (io.graphframes:graphframes-spark4_2.13:{VERSION})"),
        ((CORE.replace(VERSION, "0.8.4"), GRAPHX), "0.8.4.jar is not of the same release as graphframes-py"),
        ((CORE, GRAPHX.replace(VERSION, "9.0.0")), "9.0.0.jar is not of the same release"),
        ((CORE, GRAPHX), None),
    ],
)
def test_jars_are_checked_together(tmp_path: Path, jars: tuple[str, ...], says: str | None) -> None:
    for name in jars:
        (tmp_path / name).write_bytes(b"")

    why = missing_jars([tmp_path])

    assert why is says if says is None or why is None else says in why


def test_what_was_asked_for_by_name_and_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SPARK_JARS", str(tmp_path))

    with pytest.raises(PenstockError, match=r"io\.graphframes.*--engine local needs no jars"):
        check_jars([])
    for name in (CORE, GRAPHX):
        (tmp_path / name).write_bytes(b"")
    check_jars([])
