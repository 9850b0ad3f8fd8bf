"""Dead letters grouped by subscription and reason: the table of `list` and `redrive --dry-run`."""

from __future__ import annotations

from collections.abc import Iterable

from app.cli.output.format import Listing
from app.cli.output.time import show_time
from app.operations.dead_letters.letters import Group

GROUPS = Listing(
    columns={
        "subscription": "SUBSCRIPTION",
        "reason": "REASON",
        "count": "COUNT",
        "redriven": "REDRIVEN",
        "oldest": "OLDEST",
        "newest": "NEWEST",
    },
    wide={"topics": "TOPICS"},
    name="subscription",
    empty="No dead letters.",
)


def group_rows(groups: Iterable[Group]) -> list[dict[str, object]]:
    """One row for each group."""
    return [
        {
            "subscription": one.subscription,
            "reason": one.reason,
            "count": one.count,
            "redriven": one.redriven,
            "oldest": show_time(one.oldest_s),
            "newest": show_time(one.newest_s),
            "topics": ", ".join(sorted(one.topics)),
        }
        for one in groups
    ]
