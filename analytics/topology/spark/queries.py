"""The questions that need a walk, answered from DataFrames: the same questions and answers as `engines.queries`.

    MapFrames --rounds of joins (`frames`)--> islands, loops, double_deliveries, reach, influence, cut vertices

Fetches only answers, and parts that are small enough to finish here, as pairs of numbers: `near` edges of islands and
loops, what starts reach, a graph of CUT_EDGES_MAX edges for its articulation points. `report` selects what to show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analytics.spark.rows import strings
from analytics.topology.engines import frames
from analytics.topology.engines.double_delivery import STARTS_MAX, DoubleDeliveries, limit, meet
from analytics.topology.engines.double_delivery import bounded as bounded_ways
from analytics.topology.engines.frames import Keeper, fetch
from analytics.topology.engines.graph_index import ALIVE, FLOWS
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import DAMPING, ROUNDS, Ints
from analytics.topology.engines.queries import (
    CHANNELS,
    CUT_EDGES_MAX,
    ISLANDS_MAX,
    MEMBERS_MAX,
    OUTSIDE,
    SOURCES_MAX,
    Link,
    Loop,
    bounded,
    dead_loop,
    live_loop,
    shown_reach,
)
from analytics.topology.model.document import Flow, Island, Reach
from analytics.topology.spark.facts import FactFrames
from analytics.topology.spark.graph import MapFrames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class _Way:
    """A consumer, as far as double_deliveries needs it."""

    id: str
    channel: str


class SparkAnswers:
    """The questions about one map. Frames that Spark persists belong to the keeper, or are released with the answer."""

    def __init__(self, keeper: Keeper, map_: MapFrames, facts: FactFrames, near: int) -> None:
        self._keeper, self._spark = keeper, keeper.spark
        self._map, self._facts = map_, facts
        self._near = near

    def islands(self) -> tuple[DataFrame, tuple[Island, ...], int]:
        """(name, number of its island) of all vertices, the islands of the document, and the number of all."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        labels = self._map.vertices.withColumn("island", f.col("id"))
        maps = frames.islands(self._keeper, self._map.edges.select("src", "dst"), self._near) if self._map.count else []
        for to in maps:
            labels = frames.moved(labels, "island", to)
        labels = self._keeper.cut(labels)
        self._keeper.drop(*maps)
        sizes = labels.groupBy("island").agg(
            f.count("id").alias("size"), f.sum(f.col("channel").cast("int")).alias("of")
        )
        place = f.row_number().over(Window.orderBy(f.desc("size"), "island"))
        numbered = self._keeper.cut(sizes.withColumn("number", place))
        first = numbered.where(f.col("number") <= ISLANDS_MAX)
        nth = f.row_number().over(Window.partitionBy("number").orderBy("id"))
        some = labels.join(f.broadcast(first.select("island", "number")), ["island"]).withColumn("nth", nth)
        members: dict[int, list[str]] = defaultdict(list)
        for row in sorted(some.where(f.col("nth") <= MEMBERS_MAX).select("number", "nth", "name").collect()):
            members[row["number"]].append(row["name"])
        shown = tuple(
            Island(row["number"], row["size"], row["of"], None, tuple(members[row["number"]]))
            for row in sorted(first.select("number", "size", "of").collect())
        )
        return labels.join(numbered, ["island"]).select("name", "number"), shown, numbered.count()

    def live_loops(self) -> tuple[Loop, ...]:
        """As `GraphAnswers.loops`."""
        found = self._components(self._map.of_kind(*ALIVE))
        return tuple(live_loop(members, links, _Channels()) for members, links in found)

    def dead_loops(self) -> tuple[Loop, ...]:
        """As `GraphAnswers.dead_loops`. Only dead letter edges into channels can close one, and most maps have none."""
        from pyspark.sql import functions as f

        ends = self._map.vertices.where(_begins("name", CHANNELS)).select(f.col("id").alias("dst"))
        if self._map.of_kind(Flow.DEAD_LETTERS).join(ends, ["dst"], "left_semi").isEmpty():
            return ()
        loops = (dead_loop(members, links) for members, links in self._components(self._map.edges))
        return tuple(one for one in loops if one is not None)

    def _components(self, edges: DataFrame) -> list[tuple[list[str], list[Link]]]:
        """Members of each strongly connected component of two or more, sorted, and the edges between them."""
        import pandas as pd
        from pyspark.sql import functions as f

        with Keeper(self._spark) as keeper:
            ids, labels = frames.loops(keeper, edges, self._near)
        if not len(ids):
            return []
        inside = self._spark.createDataFrame(pd.DataFrame({"id": ids, "label": labels}), "id long, label long")
        heads = inside.select(f.col("id").alias("src"), f.col("label").alias("from"))
        tails = inside.select(f.col("id").alias("dst"), f.col("label").alias("to"))
        rows = edges.join(f.broadcast(heads), ["src"]).join(f.broadcast(tails), ["dst"])
        links: dict[int, list[Link]] = defaultdict(list)
        names = self.names(ids)
        for row in rows.where("`from` = `to` and src <> dst").select("to", "src", "dst", "kind").collect():
            links[row["to"]].append((names[row["src"]], names[row["dst"]], FLOWS[row["kind"]]))
        members: dict[int, list[str]] = defaultdict(list)
        for id_, label in zip(ids.tolist(), labels.tolist(), strict=True):
            members[label].append(names[id_])
        return sorted((some, links[label]) for label, some in members.items())

    def double_deliveries(self, loops: Iterable[Loop]) -> tuple[DoubleDeliveries, list[str]]:
        """As `double_delivery.double_deliveries`."""
        from pyspark.sql import functions as f

        loop_of = {id_: number for number, loop in enumerate(loops) for id_ in loop.members}
        readers = self._facts.consumers.select("id", "channel_id", "target").where(~_begins("target", CHANNELS))
        several = readers.groupBy("target").agg(f.min("channel_id").alias("one"), f.max("channel_id").alias("other"))
        with Keeper(self._spark) as keeper:
            shared = keeper.cut(readers.join(several.where("one <> other"), ["target"], "left_semi"))
            pairs = keeper.cut(self._pairs())
            wanted = shared.select(f.col("channel_id").alias("name")).distinct()
            wanted = keeper.cut(wanted.join(self._map.vertices, ["name"]).select(f.col("id").alias("src")))
            same, note_same = self._above(pairs.where("forward"), wanted)
            any_, note_any = self._above(pairs, wanted)
            seen = [start for above in (same, any_) for start in above]
            ids = np.unique(
                np.concatenate([np.array(seen, dtype=np.int64), *(v for a in (same, any_) for v, _ in a.values())])
            )
            if not len(ids):
                return DoubleDeliveries(), list(dict.fromkeys([*note_same, *note_any]))
            names = self.names(ids)
            near = shared.join(f.broadcast(strings(self._spark, "channel_id", names.values())), ["channel_id"])
            ways: dict[str, list[_Way]] = defaultdict(list)
            for row in near.collect():
                ways[row["target"]].append(_Way(row["id"], row["channel_id"]))
        found = meet(ways, _named(same, names), _named(any_, names), loop_of)
        return found, list(dict.fromkeys([*note_same, *note_any]))

    def _pairs(self) -> DataFrame:
        """Channels that deliver or reply to channels, as numbers, reversed: dst leads to src, forward: by delivery."""
        from pyspark.sql import functions as f

        ends = [
            f.struct(f.col(end).alias("end"), f.lit(end == "target").alias("forward")) for end in ("target", "reply")
        ]
        rows = self._facts.consumers.select("channel_id", f.inline(f.array(*ends))).where(_begins("end", CHANNELS))
        rows = rows.groupBy("channel_id", "end").agg(f.bool_or("forward").alias("forward"))
        for name, number in (("channel_id", "dst"), ("end", "src")):
            ids = self._map.vertices.select(f.col("name").alias(name), f.col("id").alias(number))
            rows = rows.join(ids, [name]).drop(name)
        return rows.select("src", "dst", "forward")

    def _above(self, pairs: DataFrame, wanted: DataFrame) -> tuple[dict[int, tuple[Ints, Ints]], list[str]]:
        """Channel -> the channels that lead to it, and the edges between, for those of `wanted`."""
        starts = wanted.join(pairs, ["src"], "left_semi")
        count = starts.count()
        if not count:
            return {}, []
        some = np.sort(fetch(starts.orderBy("src").limit(STARTS_MAX))[:, 0]).tolist()
        found = bounded_ways(frames.hops(self._spark, pairs, some, pairs.count() <= self._near))
        return {start: (vertices, depths) for start, vertices, depths in found}, limit(len(found), count)

    def reach(self) -> tuple[tuple[Reach, ...], list[str]]:
        """As `GraphAnswers.reach`."""
        from pyspark.sql import functions as f

        sent = self._facts.arrivals.groupBy("source").agg(f.sum("events").alias("events"))
        sources = sent.count()
        ranked = sent.orderBy(f.desc("events"), "source").limit(SOURCES_MAX).collect()
        ids = self._ids([row["source"] for row in ranked])
        starts = [ids[row["source"]] for row in ranked]
        edges = self._map.edges
        found = bounded(frames.hops(self._spark, edges, starts, self._map.count <= self._near)) if starts else []
        wanted = [*starts, *(vertex for one in found for vertex, _ in one.nearest)]
        return shown_reach(found, self.names(np.unique(np.array(wanted, dtype=np.int64))), sources)

    def influence(self, window_s: float, most: int) -> tuple[tuple[str, float], ...]:
        """The first values of `GraphAnswers.influence`. `window_s` 0: every destination counts as 1."""
        from pyspark.sql import functions as f

        edges = self._map.edges
        # The rules of `port.shares`.
        into = edges.groupBy("dst").agg(f.sum("weight").alias("total"), f.count("src").alias("count"))
        share = f.expr("if(total > 0, weight / total, 1 / count)") * DAMPING
        outside = self._map.vertices.where(_begins("name", OUTSIDE)).select("id")
        value = f.coalesce("total", f.lit(0.0)) / window_s if window_s else f.lit(1.0)
        with Keeper(self._spark) as keeper:
            into = keeper.cut(into)
            base = outside.join(into.withColumnRenamed("dst", "id"), ["id"], "left").select("id", value.alias("value"))
            shares = edges.join(into, ["dst"]).select("src", "dst", share.alias("share"))
            found = frames.influence(keeper, shares, base, ROUNDS)
            channels = self._map.vertices.where("channel").select("id", "name").join(found, ["id"], "left")
            ranked = (
                channels.na.fill(0.0, ["value"]).select("name", "value").orderBy(f.desc(f.round("value", 9)), "name")
            )
            return tuple((row["name"], row["value"]) for row in ranked.limit(most).collect())

    def articulation_points(self) -> dict[str, tuple[int, int]] | None:
        """As in GraphAnswers; None: too many edges. GraphFrames does not have them, so this process computes them."""
        if self._map.count > CUT_EDGES_MAX:
            return None
        ids, graph = frames.compact(fetch(self._map.edges.select("src", "dst")))
        values = np.isin(ids, fetch(self._map.vertices.where("channel").select("id"))).astype(np.int64)
        found = LocalEngine().articulation_points(graph, values)
        names = self.names(ids[list(found)])
        return {names[int(ids[vertex])]: cut for vertex, cut in found.items()}

    def names(self, ids: Ints) -> dict[int, str]:
        """The names of these vertices."""
        if not len(ids):
            return {}
        import pandas as pd
        from pyspark.sql import functions as f

        wanted = self._spark.createDataFrame(pd.DataFrame({"id": ids}), "id long")
        rows = self._map.vertices.select("id", "name").join(f.broadcast(wanted), ["id"], "left_semi").collect()
        return {row["id"]: row["name"] for row in rows}

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of these vertices."""
        return self.names(np.array(sorted(set(ids)), dtype=np.int64))

    def _ids(self, names: Sequence[str]) -> dict[str, int]:
        from pyspark.sql import functions as f

        wanted = strings(self._spark, "name", names)
        rows = self._map.vertices.select("id", "name").join(f.broadcast(wanted), ["name"], "left_semi").collect()
        return {row["name"]: row["id"] for row in rows}


class _Channels:
    """All ids of channels. Only the contract's channels can be in a loop: others have no subscriptions."""

    def __contains__(self, id_: object) -> bool:
        return str(id_).startswith(CHANNELS)


def _begins(column: str, beginnings: Iterable[str]) -> Column:
    from functools import reduce
    from operator import or_

    from pyspark.sql import functions as f

    return reduce(or_, (f.col(column).startswith(one) for one in beginnings))


def _named(above: dict[int, tuple[Ints, Ints]], names: dict[int, str]) -> dict[str, dict[str, int]]:
    found: dict[str, Any] = {}
    for start, (vertices, depths) in above.items():
        ways = zip(vertices.tolist(), depths.tolist(), strict=True)
        found[names[start]] = {names[vertex]: depth for vertex, depth in ways}
    return found
