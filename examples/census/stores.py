"""What the two workers store: `compute` the words of each chunk in the topic results, `results` those in a Faust table.

    topic compute --count--> topic results --in batches--> rows {place: words} --table--> changelog topic
                                                               ^                              |
                                                               +------ after a restart -------+

A result that comes again has the place of a row that is there, and changes nothing. The group commits a result when the
changelog has it, so a kill repeats some results and loses none.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import faust
from faust.web import View

from examples.census.totals import Totals, by_code, in_full
from examples.census.worker import Store, Worker
from tables.faust_support import add_table
from tables.timing import STORED_S
from web.pages import health


def storing(app: Worker, to: str, topic: str, delay_s: float, chunks_max: int | None) -> Store:
    """Returns the store of `compute`. `to`: kafka, stdout or null. `delay_s`: a wait for each chunk. Stops the process
    after `chunks_max`."""

    async def store(records: Sequence[tuple[Any, str, str]]) -> None:
        sent = []
        for _, place, words in records:
            if to == "kafka":
                sent.append(await app.producer.send(topic, place.encode(), words.encode(), None, None, None))
            elif to == "stdout":
                print(place, words, flush=True)
            await asyncio.sleep(delay_s)
        async with asyncio.timeout(STORED_S):
            await asyncio.gather(*sent)
        if chunks_max is not None and app.taken + len(records) >= chunks_max:
            os.kill(os.getpid(), signal.SIGTERM)

    return store


class Rows(faust.Table):  # type: ignore[type-arg]
    """Place -> words. Keeps the futures of writes that the changelog has not acknowledged yet."""

    partition = 0  #: of the changelog, for the rows that are set next
    unstored: list[Any]

    def on_key_set(self, key: Any, value: Any) -> None:
        self.unstored.append(self.send_changelog(self.partition, key, value))


class Results:
    """The table of `results`, its totals, and their page. For the event loop only."""

    def __init__(self, app: Worker) -> None:
        self._app, partitions = app, len(app.followed.partitions)
        self._rows: Any = add_table(app, Rows, name="totals", partitions=partitions, default=None, key_type=str)
        self._rows.unstored = []
        self._totals, self._generation = Totals(), 0
        app.page("/results", name="results")(type("BoundView", (ResultsView,), {"results": self, "worker": app}))
        health.register(app, lambda: (True, {}), lambda: (app.behind() is not None, {"partitions": partitions}))

    @property
    def totals(self) -> Totals:
        """Of all rows."""
        if self._generation != self._app.progress.generation:  # the table was recovered
            self._totals, self._generation = Totals(), self._app.progress.generation
            for place, words in self._rows.items():
                self._totals.add(place, words)
        return self._totals

    async def store(self, records: Sequence[tuple[Any, str, str]]) -> None:
        """Add the results that are not in the table yet."""
        for record, place, words in records:
            if place not in self._rows:
                self.totals.add(place, words)
                self._rows.partition = record.partition
                self._rows[place] = words
        async with asyncio.timeout(STORED_S):
            await asyncio.gather(*self._rows.unstored)
        self._rows.unstored = []


class ResultsView(View):
    """`Results` binds it to its table."""

    results: Results
    worker: Worker

    async def get(self, request: Any) -> Any:
        """Answers 200, or 503 when this process does not have all partitions."""
        behind = self.worker.behind()
        if behind is None:
            return self.json({"error": "this process does not have all partitions yet; run one `results`"}, status=503)
        totals, records = self.results.totals, sum(self.worker.progress.next.values())
        return self.json(in_full(totals, records, behind) if "wide" in request.query else by_code(totals))
