"""`results`: a Faust worker with the table of totals, and `/results` on its web server.

Its Faust app is named after the topic's id, so that totals of a deleted topic never mix with those of a new one. While
it does not own all partitions it answers 503.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from faust.types import TP

from analytics.census.totals import Summary
from app.census import results_page as page
from app.census import results_table as table
from app.census.faust_app import AppOptions, FollowingApp, crash, make_app, run, watch_topics
from app.census.metrics import RESULTS_READ, CensusMetrics
from app.census.results_table import ResultsConfig, ResultsTable
from app.census.topics import Topic, Topics, results_app
from app.settings.load import Settings
from tables.timing import SPARING_S
from web.pages import health


@dataclass(frozen=True, slots=True)
class ResultsRole:
    """Addresses of Kafka and of this process."""

    kafka: Mapping[str, Any]  #: librdkafka client settings
    port: int
    bind: str


def build(settings: Settings, role: ResultsRole, topic: Topic, metrics: CensusMetrics) -> FollowingApp:
    """The complete app."""
    worker = f"census-results-{os.getpid()}"
    options = AppOptions(results_app(settings.instance, topic), role.kafka, worker, role.bind, role.port)
    app = make_app(settings, options, topic)
    followed = table.register(app, ResultsConfig(topic.name, topic.partitions), crash)
    app.follower = followed
    whole = _whole(app, followed)
    page.register(app, whole)
    health.register(app, lambda: (True, {}), lambda: (whole() is not None, {"partitions": topic.partitions}))
    watch_topics(app, Topics(role.kafka), {topic.name: topic.id})

    async def count() -> None:
        metrics.add(RESULTS_READ, followed.taken - metrics.counts[RESULTS_READ])

    app.timer(SPARING_S)(count)
    return app


def _whole(app: FollowingApp, followed: ResultsTable) -> Callable[[], tuple[Summary, int] | None]:
    """Returns a function for totals and the number of stored results that are not in them. It returns None while other
    processes own partitions."""

    def summarize() -> tuple[Summary, int] | None:
        topic = app.followed
        mine = {tp.partition for tp in app.consumer.assignment() if tp.topic == topic.name}
        positions = followed.positions
        if len(mine) < topic.partitions or not mine <= positions.keys():
            return None
        ends = {number: app.consumer.highwater(TP(topic.name, number)) or 0 for number in mine}
        behind = sum(max(0, end - positions[number]) for number, end in ends.items())
        return followed.summary(), behind

    return summarize


def serve(
    settings: Settings, role: ResultsRole, topic: Topic, metrics: CensusMetrics, started: Callable[[], None]
) -> NoReturn:
    """Run until SIGTERM or Ctrl-C."""
    run(build(settings, role, topic, metrics), started)
