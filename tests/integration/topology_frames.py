"""Worlds of values as the DataFrames that the topology job makes of Kafka, and its reports from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.spark.rows import frame_of, strings
from analytics.topology.model.document import Topology
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.spark.contract import ContractFrames, contract_frames
from analytics.topology.spark.facts import SERVED_SCHEMA, FactFrames, fact_frames, spark_facts, traffic_frame
from analytics.topology.spark.report import spark_report
from knative.contract.records import Channel, Subscription
from tables.contract_table import encode_entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analytics.topology.model.facts import Facts


def records(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """The contract's records."""
    values: Iterable[bytes] = (
        *(encode_entry(one) for one in inputs.channels),
        *(encode_entry(one) for one in inputs.subscriptions),
    )
    return strings(spark, "value", (value.decode() for value in values))


def contract(spark: SparkSession, inputs: Inputs) -> ContractFrames:
    """The contract, with the filter by namespace."""
    return contract_frames(records(spark, inputs), inputs.namespace)


def facts_by_spark(spark: SparkSession, inputs: Inputs) -> Facts:
    """All facts, fetched."""
    return spark_facts(spark, inputs, contract(spark, inputs), traffic_frame(spark, list(inputs.traffic)))


def frames_of(spark: SparkSession, inputs: Inputs) -> FactFrames:
    """The facts as the job has them."""
    known = {one.uid: one for one in inputs.subscriptions}
    rows = [
        (uid, known[uid].generation, known[uid].partitions if state.ready == "True" else -1, state.lag)
        for uid, state in inputs.states.items()
    ]
    window_s = inputs.window.seconds if inputs.counted else 0.0
    served = frame_of(spark, rows, SERVED_SCHEMA)
    return fact_frames(window_s, contract(spark, inputs), traffic_frame(spark, list(inputs.traffic)), served)


def report(spark: SparkSession, inputs: Inputs, near: int, whole: int) -> Topology:
    """By GraphFrames; see `spark_report`."""

    def resources(
        uids: Sequence[str] | None,
    ) -> tuple[Sequence[Channel], Sequence[Subscription], Mapping[str, State]]:
        def reported(uid: str) -> bool:
            return uids is None or uid in uids

        channels = [one for one in inputs.channels if reported(one.uid)]
        subscriptions = [one for one in inputs.subscriptions if reported(one.uid)]
        return channels, subscriptions, {uid: state for uid, state in inputs.states.items() if reported(uid)}

    frames = frames_of(spark, inputs)
    try:
        bare = replace(inputs, channels=(), subscriptions=(), states={}, traffic=())
        return spark_report(spark, bare, frames, resources, inputs.notes, near, whole)
    finally:
        frames.close()
