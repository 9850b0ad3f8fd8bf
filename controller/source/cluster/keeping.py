"""Which published resources stay although the cluster does not show them as objects to be served. Pure.

A topic is deleted with its events, so nothing is removed because something is missing. A resource is removed when the
API server says that it is being deleted, which our finalizer makes it say, or that it was deleted. A resource that is
merely missing is *foreign*: another installation's, another cluster's, or lost by the server. It stays until a person
removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.model import FileProblem, Record
from controller.source.cluster.table import DELETED, STAYING, State, Table
from knative.contract.leader_state import Removal
from knative.contract.records import Subscription


@dataclass(frozen=True, slots=True)
class Kept:
    """The published resources that stay."""

    retained: frozenset[str]  #: uids
    foreign: frozenset[str]  #: uids, a part of `retained`


def keep(table: Table, published: Mapping[str, Record]) -> Kept:
    """Returns the published resources that stay."""
    retained, foreign = set(), set()
    entries = table.entries()
    for uid, record in published.items():
        row = table.rows[uid]
        if uid in entries or row.state is State.SERVED or row.state in DELETED:
            continue
        if row.state in STAYING or not table.synced:
            retained.add(uid)
        elif not _left_its_channel(record, table, published) and not row.released:
            retained.add(uid)
            if row.state is not State.FORMER:
                foreign.add(uid)
    return Kept(frozenset(retained), frozenset(foreign))


def keep_creations(table: Table, creations: Mapping[str, Removal]) -> frozenset[str]:
    """Returns what stays of what was created for objects that are not published yet. An object that is not valid, or
    whose list is missing, may be served tomorrow. A group alone has no events, and its start is committed again."""
    states = {uid: table.rows[uid].state for uid in creations}
    return frozenset(
        uid
        for uid, creation in creations.items()
        if not table.synced or (states[uid] not in DELETED and (states[uid] in STAYING or creation.topics))
    )


def vanished(table: Table, creations: Mapping[str, Removal]) -> frozenset[str]:
    """Returns creations with topics whose objects are not there, although nothing said that they were deleted. What is
    not listed, because of its namespace or because its kind is not installed, may be there."""
    accounted_for = STAYING | DELETED
    missing = frozenset(uid for uid in creations if table.rows[uid].state not in accounted_for) - table.entries()
    return frozenset(
        uid for uid in missing if table.synced and creations[uid].topics and _is_listed(creations[uid], table)
    )


def _is_listed(creation: Removal, table: Table) -> bool:
    namespace = creation.label.partition("/")[0]
    return (creation.kind, "") in table.lists or (creation.kind, namespace) in table.lists


def _left_its_channel(record: Record, table: Table, published: Mapping[str, Record]) -> bool:
    """Returns whether there is nothing more to serve: its channel is being deleted or gone from the contract, or this
    was an entry of a channel that does not list it any more."""
    if not isinstance(record, Subscription):
        return False
    row, channel = table.rows[record.uid], table.rows[record.channel_uid]
    if channel.state is State.SERVED:
        return row.was_entry or (table.core and row.state is not State.FORMER)
    return channel.state in DELETED or (channel.state not in STAYING and record.channel_uid not in published)


def foreign_problem(uids: Collection[str], published: Mapping[str, Record], where: str) -> tuple[FileProblem, ...]:
    """Returns the problem that there are foreign resources."""
    keys = sorted(record.key for uid, record in published.items() if uid in uids)
    if not keys:
        return ()
    kind, namespace, name = keys[0]
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    what = (
        f"resources in the contract ({kind} {namespace}/{name}{more}) are not in the cluster {where}, which did not "
        "report "
        "that they were deleted; they are kept"
    )
    hint = (
        "give this installation a name of its own (PENSTOCK_INSTANCE), or correct PENSTOCK_RESOURCES; "
        f"to remove a resource: `penstock remove {kind}/{namespace}/{name} --yes`"
    )
    return (FileProblem("cluster", 0, "", what, hint),)
