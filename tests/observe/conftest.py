"""These tests need Prometheus, which is not a part of the other rings."""

from __future__ import annotations

import pytest

from tests.support.prometheus import missing


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    lacking = missing()
    assert not lacking, f"These tests need {', '.join(lacking)}; apt-get install prometheus has them."
