"""The objects of one list of the API server in memory, kept by list pages and watch events. Pure.

    list page, page, ... last page -> all objects at one version        ADDED, MODIFIED, DELETED -> one object
    BOOKMARK -> only the version          410, or an event that cannot be read -> everything is listed again

Streams are cut, start again, and repeat events; a write's answer may come before or after its event. So every change is
judged by its resource version, which the API server raises with each change of anything in the list: what is not newer
than what is known changes nothing. An object that a new list no longer has is not among the `deleted`: it may have been
deleted, or the server has lost it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

Raw = Mapping[str, Any]
Name = tuple[str, str]  #: (namespace, name)


class Effect(Enum):
    """What an event did to a store."""

    CHANGED = "changed"
    NOTHING = "nothing"  #: only the version moved, or it was known already
    RELIST = "relist"  #: the watch cannot be continued


class ObjectStore:
    """Objects by namespace and name."""

    def __init__(self, trim: Callable[[Raw], Raw] = lambda raw: raw) -> None:
        """`trim`: what to keep of an object."""
        self._trim = trim
        self._page: dict[Name, Raw] | None = None  #: of a list that is under way
        self.version = ""  #: where a watch continues; "" = list first
        self.synced = False  #: whether everything was listed once
        self.objects: dict[Name, Raw] = {}
        self.deleted: set[str] = set()  #: uids that a watch has said to be deleted
        self._news: dict[Name, bool] = {}  #: what has changed since `take_news`, and whether others have changed it

    def take_news(self) -> dict[Name, bool]:
        """Returns the names of what has changed since the last call, and whether somebody else has changed it."""
        news, self._news = self._news, {}
        return news

    # -- list

    def begin_list(self) -> None:
        """Forget the pages of a list that was not finished."""
        self._page = None

    def add_page(self, page: Raw) -> str | None:
        """Add a page; returns the token of the next one, or None if this was the last one and the list is applied."""
        objects = self._page if self._page is not None else {}
        for item in page.get("items") or ():
            raw = self._trim(item)
            objects[name_of(raw)] = raw
        self._page = objects
        metadata = page.get("metadata") or {}
        more: str | None = metadata.get("continue") or None
        if not more:
            self._page = None
            self._replace(objects, str(metadata.get("resourceVersion") or ""))
        return more

    def _replace(self, objects: dict[Name, Raw], version: str) -> None:
        for name, before in self.objects.items():
            listed = objects.get(name)
            if listed is None:
                if newer(version_of(before), version):
                    objects[name] = before  # created after the list was made
            elif uid_of(listed) == uid_of(before) and not newer(version_of(listed), version_of(before)):
                objects[name] = before
            elif uid_of(listed) != uid_of(before):
                self.deleted.add(uid_of(before))  # its name is taken, so it was deleted
        names = objects.keys() | self.objects.keys()
        others = [name for name in names if not _is_known(self.objects.get(name), objects.get(name))]
        self._news.update(dict.fromkeys(others, True))
        self.objects, self.version, self.synced = objects, version, True

    # -- watch

    def apply(self, event: Raw) -> Effect:
        """Apply one event of a watch."""
        kind, item = event.get("type"), event.get("object")
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(item, Mapping):
            self.version = ""
            return Effect.RELIST
        version = version_of(item)
        if not newer(version, self.version):
            return Effect.NOTHING
        self.version = version
        if kind == "BOOKMARK":
            return Effect.NOTHING
        return Effect.CHANGED if self._change(item, version, deleted=kind == "DELETED") else Effect.NOTHING

    def _change(self, item: Raw, version: str, *, deleted: bool) -> bool:
        name, uid = name_of(item), uid_of(item)
        before = self.objects.get(name)
        if before is not None and newer(version_of(before), version):
            return False
        if deleted:
            self.deleted.add(uid)
            self._news[name] = True
            return self.objects.pop(name, None) is not None
        if before is not None:
            if uid_of(before) != uid:
                self.deleted.add(uid_of(before))
            elif version_of(before) == version:
                return False
        trimmed = self._trim(item)
        self.objects[name] = trimmed
        changed = before is None or not _same(before, trimmed)
        self._news[name] = self._news.get(name, False) or changed
        return changed

    def put(self, item: Raw) -> bool:
        """Apply the answer to a write. Only objects that are known: a late answer must not bring one back."""
        before = self.objects.get(name_of(item))
        if before is None or uid_of(before) != uid_of(item) or not newer(version_of(item), version_of(before)):
            return False
        self.objects[name_of(item)] = self._trim(item)
        self._news.setdefault(name_of(item), False)
        return True

    def absent(self) -> None:
        """The server does not have this list: its kind is not installed."""
        self._news.update(dict.fromkeys(self.objects, True))
        self.objects, self.version, self.synced, self._page = {}, "", True, None


def newer(left: str, right: str) -> bool:
    """Returns whether version `left` is newer than `right`. Versions are decimal numbers; one that is not counts as
    newer than any other text, because to drop a change is worse than to apply one twice."""
    if left.isdecimal() and right.isdecimal():
        return int(left) > int(right)
    return left != right


def _is_known(before: Raw | None, after: Raw | None) -> bool:
    if before is None or after is None:
        return before is after
    return (uid_of(before), version_of(before)) == (uid_of(after), version_of(after))


def _same(before: Raw, after: Raw) -> bool:
    """Returns whether what is kept of an object differs in nothing but its version."""
    version = {"resourceVersion": version_of(after)}
    return {**before, "metadata": {**metadata_of(before), **version}} == after


def metadata_of(raw: Raw) -> Raw:
    """Returns `metadata`, which every object has."""
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def identity_of(raw: Raw, *more: str) -> Raw:
    """Returns the metadata to keep of an object of which little is kept, with these fields too."""
    metadata = metadata_of(raw)
    return {key: metadata.get(key) for key in ("namespace", "name", "uid", "resourceVersion", *more)}


def name_of(raw: Raw) -> Name:
    """Returns (namespace, name)."""
    metadata = metadata_of(raw)
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def uid_of(raw: Raw) -> str:
    """Returns the object's uid."""
    return str(metadata_of(raw).get("uid") or "")


def version_of(raw: Raw) -> str:
    """Returns the object's resource version."""
    return str(metadata_of(raw).get("resourceVersion") or "")
