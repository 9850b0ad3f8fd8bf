"""Counts the rows that Spark sends to this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Received:
    """So far: all rows, and the rows with a value that is not a number."""

    rows: int = 0
    other: int = 0


@contextmanager
def received() -> Iterator[Received]:
    """Of every frame that is fetched inside, as rows or as pandas."""
    from pyspark.sql.classic.dataframe import DataFrame

    count = Received()

    def counting(fetch: Callable[..., Any]) -> Callable[..., Any]:
        def fetched(frame: DataFrame) -> Any:
            found = fetch(frame)
            count.rows += len(found)
            numbers = all(kind in ("bigint", "int", "double", "boolean") for _, kind in frame.dtypes)
            count.other += 0 if numbers else len(found)
            return found

        return fetched

    names = ("collect", "toPandas")
    before = {name: getattr(DataFrame, name) for name in names}
    for name, fetch in before.items():
        setattr(DataFrame, name, counting(fetch))
    try:
        yield count
    finally:
        for name, fetch in before.items():
            setattr(DataFrame, name, fetch)
