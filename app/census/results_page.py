"""`GET /results`: the totals of the census demo as JSON; `GET /results?wide`: with all details."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from faust.web import View

from analytics.census.model import CODES
from analytics.census.totals import Summary

PATH = "/results"

#: Returns (totals, number of stored results that are not counted yet); None = this process lacks partitions.
Summarize = Callable[[], tuple[Summary, int] | None]


def to_plain(summary: Summary) -> dict[str, dict[str, dict[str, Any]]]:
    """Year -> code -> description and count, with every code."""
    return {
        str(year): {str(code): {"description": CODES[code], "count": codes[code]} for code in CODES}
        for year, codes in summary.years.items()
    }


def to_wide(summary: Summary, behind: int) -> dict[str, Any]:
    """Totals by year and code, and all known problems with them."""
    return {
        "years": {str(year): {str(code): codes[code] for code in CODES} for year, codes in summary.years.items()},
        "complete": summary.complete and not behind,
        "behind": behind,
        "lines": summary.lines,
        "problems": {problem.value: count for problem, count in summary.problems.items()},
        "chunks": sum(file.chunks for file in summary.files),
        "repeats": summary.repeats,
        "refused": list(summary.refused),
        "unreadable": summary.unreadable,
        "holes": summary.holes,
        "twice": summary.twice,
        "files": [asdict(file) for file in summary.files],
    }


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
