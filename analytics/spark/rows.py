"""Values of this process as a DataFrame, sent as Arrow.

`createDataFrame` of a list of rows would start Python workers, again for each query that reads the frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """One row for each tuple, which has the columns of `schema`; a map is a sequence of pairs."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), _spark_schema(schema))


def strings(spark: SparkSession, column: str, values: Iterable[str]) -> DataFrame:
    """One column of texts."""
    return frame_of(spark, ((value,) for value in values), pa.schema([(column, pa.string())]))


def _spark_schema(schema: pa.Schema) -> StructType:
    """Spark Connect does not take it from a table without rows."""
    from pyspark.sql import types as t

    known = {
        pa.bool_(): t.BooleanType(),
        pa.binary(): t.BinaryType(),
        pa.string(): t.StringType(),
        pa.int32(): t.IntegerType(),
        pa.int64(): t.LongType(),
        pa.map_(pa.int32(), pa.int64()): t.MapType(t.IntegerType(), t.LongType()),
    }
    return t.StructType([t.StructField(field.name, known[field.type]) for field in schema])
