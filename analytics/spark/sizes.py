"""Settings of Spark by the size of what a query reads.

The number of partitions is a setting of the session, and for little data, compiling generated code takes longer than
reading the data. A batch of a few hundred records must not cost 200 tasks on a cluster, as a batch of a day does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from analytics.spark.session import SMALL_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: SMALL_SETTINGS are faster up to this number of rows.
FEW_ROWS = 20_000


@contextlib.contextmanager
def sized(spark: SparkSession, rows: int) -> Iterator[None]:
    """Within the block, queries have the settings for this number of rows: SMALL_SETTINGS for few, else the
    session's."""
    before = {name: spark.conf.get(name) for name in SMALL_SETTINGS} if rows <= FEW_ROWS else {}
    try:
        for name in before:
            spark.conf.set(name, SMALL_SETTINGS[name])
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
