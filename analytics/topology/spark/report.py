"""One run on Spark: facts and graph stay DataFrames, and only the document's part of them is fetched.

    FactFrames --map_frames--> graph --SparkAnswers, motif--> answers --selection--> rows --facts_of_rows--> Facts
    Facts, answers --put_together--> Topology

Of a map of up to WHOLE_EDGES_MAX edges, the document has everything, and equals that of the local engine. Of a larger
map, findings and rankings cover the whole; vertices and edges are those that they name, and the busiest. `findings`
decides here too, from the fetched rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.topology.build import collector_at_rest, put_together, ranked_cuts
from analytics.topology.engines.frames import Keeper
from analytics.topology.engines.graphframes import NEAR_EDGES, GraphFramesEngine
from analytics.topology.engines.queries import GraphAnswers, limits
from analytics.topology.findings import is_single_point
from analytics.topology.model.document import LISTED_MAX, Topology
from analytics.topology.model.facts import Facts, ReplyChain
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.spark import graph as spark_graph
from analytics.topology.spark import selection
from analytics.topology.spark.facts import FactFrames, facts_of_rows, joins_of, reply_chains
from analytics.topology.spark.graph import MapFrames, map_frames
from analytics.topology.spark.queries import SparkAnswers
from analytics.topology.spark.selection import MARKED_MAX, WHOLE_EDGES_MAX, Rows, Wanted
from knative.contract.records import Channel, Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: uids (None: all) -> their resources, and the workers' reports on the subscriptions.
Resources = Callable[[Sequence[str] | None], tuple[Sequence[Channel], Sequence[Subscription], Mapping[str, State]]]
Doubles = dict[tuple[str, str], list[str]]


def spark_report(
    spark: SparkSession,
    inputs: Inputs,
    facts: FactFrames,
    resources: Resources,
    notes: Iterable[str] = (),
    near: int = NEAR_EDGES,
    whole: int = WHOLE_EDGES_MAX,
) -> Topology:
    """`inputs`: without resources, states and traffic. `near`: see GraphFramesEngine. `whole`: the most edges of a map
    that is in the document as a whole. Raises NoGraphFramesError when its jars are missing.
    """
    GraphFramesEngine(spark).close()  # raises the error with what is missing
    counted = inputs.counted and inputs.window.seconds > 0
    with Keeper(spark) as keeper:
        facts = replace(facts, consumers=facts.consumers.cache(), channels=facts.channels.cache())
        try:
            map_ = map_frames(keeper, facts, counted)
            return _Run(keeper, inputs, facts, map_, near, map_.count <= whole).report(resources, notes)
        finally:
            facts.consumers.unpersist()
            facts.channels.unpersist()


class _Run:
    def __init__(
        self, keeper: Keeper, inputs: Inputs, facts: FactFrames, map_: MapFrames, near: int, whole: bool
    ) -> None:
        self._spark, self._inputs = keeper.spark, inputs
        self._facts, self._map, self._whole = facts, map_, whole
        self._asking = SparkAnswers(keeper, map_, facts, near)
        self._doubles: Doubles = {}
        self._chains: list[ReplyChain] = []
        self._notes: list[str] = []

    def report(self, resources: Resources, notes: Iterable[str]) -> Topology:
        """Answer all questions, then fetch the document's part of the map."""
        place, walks = self._walked()
        self._doubles = self._doubled()
        self._chains = reply_chains(self._facts, None if self._whole else MARKED_MAX)
        rows = self._shown_rows(walks)
        channels, subscriptions, states = resources(None if self._whole else rows.uids())
        inputs = replace(self._inputs, channels=channels, subscriptions=subscriptions, states=states)
        joins = joins_of(inputs.counted, rows.consumers, rows.channels, self._doubles, self._chains)
        facts = facts_of_rows(inputs, rows.arrivals, rows.consumers, rows.channels, joins)
        walks = replace(walks, island_of=self._islands_of(place, rows))
        with collector_at_rest():
            return put_together(inputs, self._counted(facts), walks, [*notes, *self._notes, *rows.notes])

    def _walked(self) -> tuple[DataFrame, GraphAnswers]:
        """(name, island) of all vertices, and everything else."""
        ask, inputs = self._asking, self._inputs
        place, islands, count = ask.islands()
        loops = ask.live_loops()
        met, meeting_notes = ask.double_deliveries(loops)
        reach, reach_notes = ask.reach()
        articulation_points = ask.articulation_points()
        return place, GraphAnswers(
            engine=GraphFramesEngine.name,
            island_of={},
            islands=islands,
            loops=loops,
            dead_loops=ask.dead_loops(),
            double_deliveries=met,
            reach=reach,
            influence=ask.influence(inputs.window.seconds if self._map.counted else 0.0, LISTED_MAX),
            articulation_points=articulation_points or {},
            notes=(*meeting_notes, *reach_notes, *limits(count, len(islands), articulation_points is None)),
        )

    def _doubled(self) -> Doubles:
        """The double deliveries of the first destinations, each complete."""
        found = spark_graph.doubles(self._map).orderBy("target", "channel", "consumer")
        rows = (found if self._whole else found.limit(MARKED_MAX + 1)).collect()
        if not self._whole and len(rows) > MARKED_MAX:  # the last one may be incomplete
            rows = [row for row in rows if row["target"] != rows[-1]["target"]]
            self._notes.append(f"Destinations that get events twice are shown for {len(rows)} subscriptions.")
        names = self._asking.names_of(number for row in rows for number in row)
        groups: Doubles = defaultdict(list)
        for row in rows:
            groups[names[row["channel"]], names[row["target"]]].append(names[row["consumer"]])
        return {pair: sorted(ids) for pair, ids in groups.items()}

    def _shown_rows(self, walks: GraphAnswers) -> Rows:
        if self._whole:
            return selection.whole(self._facts)
        wanted = Wanted()
        for loop in (*walks.loops, *walks.dead_loops):
            wanted.add(loop.members)
        for one in (*walks.double_deliveries.same, *walks.double_deliveries.child):
            wanted.add((one.first, one.second, one.via))
        for (channel, _), ids in self._doubles.items():
            wanted.add((channel, *ids))
        for chain in self._chains:
            wanted.add((chain.broker, *chain.unfiltered, *chain.filtered))
        wanted.add(one.source for one in walks.reach)
        wanted.add(id_ for id_, value in walks.influence if value > 0)
        wanted.add(id_ for id_, (_, channels) in walks.articulation_points.items() if is_single_point(id_, channels))
        wanted.add(id_ for id_, _ in ranked_cuts(walks))
        rows = selection.part(self._spark, self._facts, wanted, self._inputs.workers, self._map.counted, LISTED_MAX)
        self._notes.append(
            f"The map has {self._map.count} edges. Findings and rankings cover all of them. The page shows "
            f"{len(rows.consumers)} subscriptions and {len(rows.channels)} channels that they name, or that are the "
            "busiest, and the figures of a destination cover these."
        )
        return rows

    def _islands_of(self, place: DataFrame, rows: Rows) -> dict[str, int]:
        found = place if self._whole else selection.only(self._spark, place, "name", rows.names())
        return {row["name"]: row["number"] for row in found.collect()}

    def _counted(self, facts: Facts) -> Facts:
        return facts if self._whole else replace(facts, consumers_count=self._facts.consumers.count())
