"""Reads the traffic of a time range from the tables of the traffic job: one line for each channel and subscription.

For ranges that the windows in Kafka do not reach. Needs no Spark and no Kafka.
"""

from __future__ import annotations

from analytics.traffic.dataset import Folder
from analytics.traffic.read import read_sums
from analytics.traffic.windows import size_for
from knative.contract.records import Channel
from tables.traffic_windows.view import Line
from tables.traffic_windows.windows import Window


def read_history(
    folder: Folder, since_s: float, until_s: float, channel: Channel | None = None, namespace: str = ""
) -> tuple[list[Line], tuple[int, int]]:
    """Returns the lines, each with one window, and the first and last second of what was read. Raises PenstockError
    without tables."""
    sums, span = read_sums(
        folder, size_for(since_s, until_s), since_s, until_s, over=("start", "size", "type", "source")
    )
    if span is None:
        return [], (0, 0)
    lines = [
        Line(
            sum_.namespace, sum_.channel, sum_.subscription, {span[0]: Window(counts=sum_.counts, latency=sum_.latency)}
        )
        for sum_ in sums
        if namespace in ("", sum_.namespace)
        and (channel is None or (sum_.namespace, sum_.channel) == (channel.namespace, channel.unique_name))
    ]
    return sorted(lines, key=lambda line: (line.namespace, line.channel, line.subscription)), span
