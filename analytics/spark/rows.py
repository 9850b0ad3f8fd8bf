"""Values of this process as a DataFrame, sent as Arrow.

`createDataFrame` of a list of rows would start Python workers, again for each query that reads the frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """Returns one row for each tuple, which has the columns of `schema`; a map is a sequence of pairs."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return frame_of_table(spark, pa.Table.from_arrays(arrays, schema=schema))


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Returns the rows of a table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # Spark Connect does not take the columns from a table without rows.
    return spark.createDataFrame(table, from_arrow_schema(table.schema))
