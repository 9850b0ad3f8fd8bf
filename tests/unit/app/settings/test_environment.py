"""Variables of other programs."""

from __future__ import annotations

import os

import pytest

from app.settings.environment import forget_other_sparks, set_children, take_children

_VARIABLES = {
    "SPARK_HOME": "/opt/spark",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "SPARK_REMOTE": "sc://h",
}


def test_what_is_left_over_of_another_spark_is_removed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _VARIABLES.items():
        monkeypatch.setenv(name, value)
    assert forget_other_sparks("/ours") == list(_VARIABLES)
    assert not os.environ.keys() & _VARIABLES.keys()
    assert forget_other_sparks("/ours") == []


def test_our_own_spark_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/ours")
    assert forget_other_sparks("/ours") == []


@pytest.mark.parametrize("pids", [{}, {0: 7}, {1: 8, 3: 9}])
def test_next_program_of_a_supervisor_takes_its_children_once(
    pids: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LISTEN_CHILDREN", raising=False)
    assert take_children() is None
    set_children(pids, "/tmp/a folder")
    assert take_children() == (pids, "/tmp/a folder")
    assert take_children() is None


def test_process_does_not_take_the_children_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_CHILDREN", f"{os.getppid()} 0:7 /tmp/a")
    assert take_children() is None
    assert "LISTEN_CHILDREN" not in os.environ
