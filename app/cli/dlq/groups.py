"""Dead letters grouped by subscription and reason: the table of `list` and `redrive --dry-run`."""

from __future__ import annotations

from collections.abc import Iterable

from app.cli.output.format import Listing
from app.cli.output.time import show_time
from app.operations.dead_letters.letters import Group
from knative.contract.records import SUBSCRIPTION, kind_and_name

GROUPS = Listing(
    columns={
        "kind": "KIND",
        "subscription": "NAME",
        "count": "COUNT",
        "redriven": "REDRIVEN",
        "oldest": "OLDEST",
        "newest": "NEWEST",
        "reason": "REASON",
    },
    wide={"topics": "TOPICS", "reason": "REASON"},
    times=frozenset({"oldest", "newest"}),
    name="subscription",
    kind="kind",
    empty="No dead letters.",
)


def named(label: str) -> dict[str, object]:
    """Returns kind and name of a subscription or trigger; "" = a letter does not say whose it is."""
    kind, name = kind_and_name(label, SUBSCRIPTION) if label else ("", "")
    return {"kind": kind, "subscription": name}


def group_rows(groups: Iterable[Group]) -> list[dict[str, object]]:
    """Returns one row for each group."""
    return [
        {
            **named(group.subscription),
            "reason": group.reason,
            "count": group.count,
            "redriven": group.redriven,
            "oldest": show_time(group.oldest_s),
            "newest": show_time(group.newest_s),
            "topics": ", ".join(sorted(group.topics)),
        }
        for group in groups
    ]
