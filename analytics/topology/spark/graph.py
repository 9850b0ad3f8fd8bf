"""The map as a graph of DataFrames, the input of GraphFrames; made from FactFrames without fetching any row.

    ids of channels, consumers, destinations, sources --sorted--> vertices (id long, name, channel)
    consumers, arrivals --their ends as numbers-->                edges (src, dst, kind, weight)

Vertices are numbered in the order of their ids, as in `graph_index.number`, but with gaps. Weights and kinds are those
of `graph_index` too. Of the questions, one is here: a motif, which is a join.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from analytics.topology.engines.graph_index import PLACE, WEIGHED_BY
from analytics.topology.model.document import Flow
from analytics.topology.spark.facts import FactFrames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from analytics.topology.engines.frames import Keeper

#: The other end of each edge of a consumer, and whether the edge leads to it.
_ENDS = {
    Flow.SUBSCRIBES: ("channel_id", False),
    Flow.DELIVERS: ("target", True),
    Flow.REPLIES: ("reply", True),
    Flow.DEAD_LETTERS: ("dead", True),
}


@dataclass(frozen=True, slots=True)
class MapFrames:
    """vertices: id, name (the id in the document), channel (it is one of the contract). edges: src, dst, kind (place in
    FLOWS), weight. `count`: number of edges. `counted`: weights are events; otherwise each is 1.
    """

    vertices: DataFrame
    edges: DataFrame
    count: int
    counted: bool

    def of_kind(self, *flows: Flow) -> DataFrame:
        """The edges of these kinds."""
        from pyspark.sql import functions as f

        return self.edges.where(f.col("kind").isin([PLACE[flow] for flow in flows]))


def map_frames(keeper: Keeper, facts: FactFrames, counted: bool) -> MapFrames:
    """Compute the map and persist it until the keeper releases it."""
    vertices = keeper.cut(_vertices(facts))
    edges = keeper.cut(_edges(facts, vertices, counted))
    return MapFrames(vertices, edges, edges.count(), counted)


def _vertices(facts: FactFrames) -> DataFrame:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    of_consumer = f.explode(f.array("id", *(end for end, _ in _ENDS.values())))
    names = [facts.consumers.select(of_consumer.alias("name")), facts.arrivals.select(f.col("source").alias("name"))]
    others = reduce(DataFrame.unionAll, names).where("name <> ''").withColumn("channel", f.lit(False))
    channels = facts.channels.select(f.col("id").alias("name"), f.lit(True).alias("channel"))
    known = others.unionAll(channels).groupBy("name").agg(f.bool_or("channel").alias("channel"))
    # In sorted order, partitions follow each other by their numbers, and so do the rows in each.
    return known.orderBy("name").withColumn("id", f.monotonically_increasing_id()).select("id", "name", "channel")


def _edges(facts: FactFrames, vertices: DataFrame, counted: bool) -> DataFrame:
    from pyspark.sql import functions as f

    def numbered(frame: DataFrame, name: str, number: str) -> DataFrame:
        return frame.join(vertices.select(f.col("id").alias(number), f.col("name").alias(name)), [name]).drop(name)

    def weight(count: str) -> Column:
        return (f.coalesce(count, f.lit(0)) if counted else f.lit(1)).cast("double")

    ends = (
        f.struct(
            f.lit(PLACE[flow]).alias("kind"),
            f.col(end).alias("end"),
            f.lit(onwards).alias("onwards"),
            weight(f"n_{WEIGHED_BY[flow]}").alias("weight"),
        )
        for flow, (end, onwards) in _ENDS.items()
    )
    rows = numbered(facts.consumers.select("id", f.array(*ends).alias("ends")), "id", "at")
    rows = numbered(rows.select("at", f.inline("ends")).where("end <> ''"), "end", "other")
    of_consumers = rows.select(
        f.expr("if(onwards, at, other)").alias("src"), f.expr("if(onwards, other, at)").alias("dst"), "kind", "weight"
    )
    sent = facts.arrivals.select(
        "source", "id", f.lit(PLACE[Flow.PUBLISHES]).alias("kind"), weight("events").alias("weight")
    )
    published = numbered(numbered(sent, "source", "src"), "id", "dst")
    return of_consumers.unionAll(published.select("src", "dst", "kind", "weight"))


def doubles(map_: MapFrames) -> DataFrame:
    """(channel, target, consumer): paths of two edges, where another one joins the same channel and target."""
    from graphframes import GraphFrame
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    edges = map_.of_kind(Flow.SUBSCRIBES, Flow.DELIVERS).select("src", "dst", "kind")
    ways: DataFrame = GraphFrame(map_.vertices.select("id"), edges).find("(c)-[takes]->(u); (u)-[gives]->(t)")
    found = ways.where(f"takes.kind = {PLACE[Flow.SUBSCRIBES]} and gives.kind = {PLACE[Flow.DELIVERS]}").select(
        f.col("c.id").alias("channel"), f.col("t.id").alias("target"), f.col("u.id").alias("consumer")
    )
    twins = f.count("consumer").over(Window.partitionBy("channel", "target"))
    return found.withColumn("twins", twins).where("twins > 1").drop("twins")
