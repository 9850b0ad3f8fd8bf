"""Variables of other programs."""

from __future__ import annotations

import os

import pytest

from app.settings.environment import forget_other_sparks

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
