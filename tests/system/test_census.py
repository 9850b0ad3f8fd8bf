"""The census demo with Faust. With Spark: test_jobs_on_a_cluster."""

from __future__ import annotations

import pytest

from app.local.kafka import EmbeddedKafka
from tests.system.census_demo import check_totals

pytestmark = pytest.mark.system


def test_totals_are_exact_after_kills(kafka: EmbeddedKafka) -> None:
    """A group of one."""
    check_totals(kafka, "--engine", "faust")
