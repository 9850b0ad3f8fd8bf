"""Fetches the sums that Spark has made of the traffic, as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from analytics.topology.model.document import Window
from analytics.topology.model.sums import Summing, Sums
from knative.traffic.counts import NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLICE_ROWS = 500_000  #: rows of source, type and channel that are fetched at once: some 50 MB in Spark's driver


def fetch(sums: DataFrame, window: Callable[[Window | None], Window]) -> tuple[Sums, Window]:
    """Returns the rows of `traffic.sums_of`, added up. `window`: the span of the rows (None: there are none) -> the
    window of the report; may raise an error before the rows are fetched."""
    from pyspark.sql import functions as f

    sums = sums.cache()
    try:
        first, last, pairs = sums.agg(f.min("first"), f.max("last"), f.count_if("accepted")).collect()[0]
        span = window(None if first is None else Window(float(first), float(last)))
        summing = Summing()
        done = sums.where("not accepted").select("namespace", "channel", "subscription", *NAMES, "latency")
        summing.settled(done.toArrow())
        came = sums.where("accepted").select("namespace", "channel", "source", "type", "events", "bytes")
        slices = -(-pairs // SLICE_ROWS)
        for number in range(slices):
            part = came if slices == 1 else came.where(f"pmod(xxhash64(source, channel), {slices}) = {number}")
            summing.came(part.toArrow())
        return summing.sums(), span
    finally:
        sums.unpersist()
