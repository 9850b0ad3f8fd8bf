"""`GET /results`: the totals of the census demo as JSON; `GET /results?wide`: with all details."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faust.web import View

from analytics.census.totals import Summary, to_plain, to_wide

PATH = "/results"

#: Returns (totals, number of stored results that are not counted yet); None = this process lacks partitions.
Summarize = Callable[[], tuple[Summary, int] | None]


class ResultsView(View):
    """Bound by `register`."""

    summarize: Summarize

    async def get(self, request: Any) -> Any:
        """200, or 503 when this process does not own all partitions."""
        found = type(self).summarize()
        if found is None:
            error = "this process does not own all partitions of the results (yet); run one `penstock census results`"
            return self.json({"error": error}, status=503, headers={"retry-after": "2"})
        summary, behind = found
        return self.json(to_wide(summary, behind) if "wide" in request.query else to_plain(summary))


def register(app: Any, summarize: Summarize) -> None:
    """Register the page on a Faust app."""
    app.page(PATH, name="results")(type("BoundResultsView", (ResultsView,), {"summarize": staticmethod(summarize)}))
