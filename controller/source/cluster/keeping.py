"""Which published resources stay although the cluster does not show them as objects to be served. Pure.

A topic is deleted with its events, so nothing is removed because something is missing. A resource is removed when the
API server says that it is being deleted, which our finalizer makes it say, or that it was deleted. What only is not
there is *foreign*: another installation's, another cluster's, or lost by the server. It stays until a person removes
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.model import FileProblem, Record
from knative.contract.leader_state import Removal
from knative.contract.records import Channel, Subscription


@dataclass(frozen=True, slots=True)
class View:
    """What the cluster shows."""

    synced: bool  #: every list was read once
    alive: frozenset[str]  #: uids of the objects to be served, and of entries of channels
    present: frozenset[str]  #: uids of objects that are there and not being deleted, whether they are served or not
    deleted: frozenset[str]  #: uids of objects that are being deleted, or that a watch has said to be deleted
    entries_seen: frozenset[str] = frozenset()  #: uids that were entries of channels once
    core: bool = False  #: Subscriptions are entries of channels, which Knative's core writes
    former: frozenset[str] = frozenset()  #: uids of Subscriptions of ours that core has not taken over yet
    lists: frozenset[tuple[str, str]] = frozenset()  #: (kind, namespace) of what can be listed; "" = all namespaces


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays."""

    retained: frozenset[str]  #: uids
    foreign: frozenset[str]  #: uids, a part of `retained`


def keep(view: View, published: Mapping[str, Record], released: Collection[str] = ()) -> Kept:
    """What of the published stays. `released`: uids that a person wants to remove."""
    retained, foreign = set(), set()
    for uid, record in published.items():
        if uid in view.alive or uid in view.deleted:
            continue
        if uid in view.present or not view.synced:
            retained.add(uid)
        elif not _left_its_channel(record, view, published) and uid not in released:
            retained.add(uid)
            if uid not in view.former:
                foreign.add(uid)
    return Kept(frozenset(retained), frozenset(foreign))


def keep_creations(view: View, creations: Mapping[str, Removal]) -> frozenset[str]:
    """What stays of that which was created for objects that are not published yet. An object that is not valid now, or
    whose list is missing, may be served tomorrow. A group alone has no events, and its start is committed again."""
    return frozenset(
        uid
        for uid, one in creations.items()
        if not view.synced or (uid not in view.deleted and (uid in view.present or one.topics))
    )


def vanished(view: View, creations: Mapping[str, Removal]) -> frozenset[str]:
    """Creations with topics whose objects are not there, although nothing said that they were deleted. What is not
    listed, because of its namespace or because its kind is not installed, may be there."""
    if not view.synced:
        return frozenset()
    there = view.present | view.alive | view.deleted
    return frozenset(uid for uid, one in creations.items() if one.topics and uid not in there and _is_listed(one, view))


def _is_listed(creation: Removal, view: View) -> bool:
    namespace = creation.label.partition("/")[0]
    return (creation.kind, "") in view.lists or (creation.kind, namespace) in view.lists


def _left_its_channel(record: Record, view: View, published: Mapping[str, Record]) -> bool:
    """Whether there is nothing more to serve: its channel is being deleted or gone from the contract, or this was an
    entry of a channel that does not list it any more."""
    if not isinstance(record, Subscription):
        return False
    if record.channel_uid in view.deleted:
        return True
    if record.channel_uid in view.alive:
        return record.uid in view.entries_seen or (view.core and record.uid not in view.former)
    return record.channel_uid not in view.present and record.channel_uid not in published


def foreign_problem(uids: Iterable[str], published: Mapping[str, Record], where: str) -> tuple[FileProblem, ...]:
    """The problem that there are foreign resources."""
    keys = sorted((one.kind, one.namespace, one.name) for uid in uids if (one := published.get(uid)) is not None)
    if not keys:
        return ()
    kind, namespace, name = keys[0]
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    what = (
        f"resources in the contract ({kind} {namespace}/{name}{more}) are not in the cluster {where}, which never said "
        "that they were deleted; they are kept"
    )
    hint = (
        "give this installation a name of its own (PENSTOCK_INSTANCE), or correct PENSTOCK_RESOURCES; "
        f"to have one removed: `penstock remove {kind}/{namespace}/{name} --yes`"
    )
    return (FileProblem("cluster", 0, "", what, hint),)


def releasable(asked: Collection[str], published: Mapping[str, Record]) -> frozenset[str]:
    """The resources that may be removed: a channel only together with all its subscriptions."""
    read = {one.channel_uid for uid, one in published.items() if isinstance(one, Subscription) and uid not in asked}
    return frozenset(uid for uid in asked if uid not in read or not isinstance(published.get(uid), Channel))
