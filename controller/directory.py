"""Objects from a directory of YAML files: what `kubectl apply` and `delete` are in a cluster, saving a file is here.

    stat -> changed? -> read -> documents -> resources -> the file's good state, or problems and the last good state

A file is taken whole or not at all. An object counts as removed when two looks in a row did not find it: editors save
by truncating, or by renaming, and a look in between must not delete a topic; nor while a file is bad that turned bad
when the object vanished: it may have moved there. When all of several files vanish at once, a volume may have come off:
what they said stays for half a minute, and a problem says so. Refuses to give identities (`identities`), to stop for a
bad file.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from controller.documents import FILE_BYTES_MAX, BadDocument, Document, read_documents
from knative import resources
from knative.errors import UsageError
from knative.resources import Invalid, Resource

SUFFIXES = (".yaml", ".yml", ".json")
FILES_MAX = 10_000
EMPTIED_S = 30.0  #: how long everything stays when several files, and all there were, vanish at once
RACY_S = 2.0  #: a file changed so recently may change again within one tick of its clock

Key = tuple[str, str, str]  #: (kind, namespace, name)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Something wrong in the directory. `ignored`: only this document is left out, the rest of the file counts."""

    file: str  #: relative to the directory
    line: int
    field: str
    what: str
    cure: str
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """One object as it stands in a file."""

    resource: Resource
    spec_hash: str
    file: str
    line: int

    @property
    def key(self) -> Key:
        """(kind, namespace, name)."""
        return self.resource.kind, self.resource.namespace, self.resource.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the directory says at one look."""

    objects: tuple[Written, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    complete: bool = False  #: what is not here is nowhere: no file is bad that was never read well


@dataclass(frozen=True, slots=True)
class _File:
    signature: tuple[int, int, int]  #: mtime in ns, size, inode; (0, 0, 0) = look into it next time
    digest: bytes
    good: tuple[Written, ...] | None = None  #: the last good state; None = never
    problems: tuple[FileProblem, ...] = ()
    bad_since: int | None = None  #: the look at which it turned bad; None = it is not


class Directory:
    """The files of one directory and what they say. Blocking: call `scan` in a thread, one at a time."""

    def __init__(self, root: Path, emptied_s: float = EMPTIED_S) -> None:
        self._root = root
        self._emptied_s = emptied_s
        self._emptied_at: float | None = None
        self._files: dict[str, _File] = {}
        self._missed: dict[Key, int] = {}  #: kept although not found -> the first look that did not find it
        self._looks = 0
        self._ever_found = False
        self._objects: dict[Key, Written] = {}

    def check(self) -> None:
        """Raises UsageError with a sentence when there is no such directory, or it cannot be read."""
        if not self._root.is_dir():
            raise UsageError(
                f"The resources directory {str(self._root)!r} does not exist.",
                "Make it and put the YAML of your channels and subscriptions there, or set PENSTOCK_RESOURCES.",
            )
        if not os.access(self._root, os.R_OK | os.X_OK):
            raise UsageError(
                f"The resources directory {str(self._root)!r} cannot be read.", "Give this user read permission on it."
            )

    def scan(self) -> Snapshot:
        """Look once. A directory that has gone is a problem, and everything stays."""
        try:
            found = dict(_walk(self._root))
        except OSError as error:
            problem = FileProblem(".", 0, "", f"the directory cannot be read: {error.strerror}", "bring it back")
            return Snapshot(tuple(self._objects.values()), (problem,), complete=False)
        emptied = self._emptied(found)
        if emptied is not None:
            return Snapshot(tuple(self._objects.values()), (emptied,), complete=False)
        self._looks += 1
        for name in self._files.keys() - found.keys():
            del self._files[name]
        for name in sorted(found):
            self._files[name] = self._look(name, found[name], self._files.get(name))
        return self._merge(too_many=len(found) >= FILES_MAX)

    def _emptied(self, found: Mapping[str, Path]) -> FileProblem | None:
        """The problem that all files are gone at once, for as long as what they said stays."""
        if found or len(self._files) < 2:
            self._emptied_at = None
            return None
        now = time.monotonic()
        if self._emptied_at is None:
            self._emptied_at = now
        if now - self._emptied_at >= self._emptied_s:
            return None
        what = f"all {len(self._files)} files are gone at once; what they said stays for {self._emptied_s:g} s"
        return FileProblem(".", 0, "", what, "put them back, or else their channels and topics are removed then")

    def _look(self, name: str, path: Path, before: _File | None) -> _File:
        try:
            stat = path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if before is not None and before.signature == signature:
                return before
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            problem = FileProblem(name, 0, "", f"the file cannot be read: {error.strerror}", "mend its permissions")
            return self._bad((0, 0, 0), b"", before, (problem,))
        if abs(time.time() - stat.st_mtime) < RACY_S:
            signature = (0, 0, 0)
        digest = hashlib.sha256(data).digest()
        if before is not None and before.digest == digest:
            return replace(before, signature=signature)
        written, problems = read_file(name, data)
        if any(not problem.ignored for problem in problems):
            return self._bad(signature, digest, before, tuple(problems))
        return _File(signature, digest, tuple(written), tuple(problems))

    def _bad(
        self, signature: tuple[int, int, int], digest: bytes, before: _File | None, problems: tuple[FileProblem, ...]
    ) -> _File:
        since = before.bad_since if before is not None and before.bad_since is not None else self._looks
        return _File(signature, digest, before.good if before else None, problems, since)

    def _merge(self, *, too_many: bool) -> Snapshot:
        problems = [problem for name in sorted(self._files) for problem in self._files[name].problems]
        if too_many:
            problems.append(FileProblem(".", 0, "", f"over {FILES_MAX} files; the rest is not read", "use fewer files"))
        objects: dict[Key, Written] = {}
        for written in self._in_order_of_precedence():
            first = objects.setdefault(written.key, written)
            if first is not written:
                kind, namespace, name = written.key
                what = f"{kind} {namespace}/{name} is already in {first.file}:{first.line}, which counts"
                problems.append(
                    FileProblem(written.file, written.line, "metadata.name", what, "remove one", ignored=True)
                )
        self._missed = {
            key: self._missed.get(key, self._looks)
            for key in self._objects.keys() - objects.keys()
            if self._stays(self._missed.get(key, self._looks))
        }
        objects |= {key: self._objects[key] for key in self._missed}
        self._objects = dict(sorted(objects.items()))
        self._ever_found |= bool(self._files)
        # A first look may fall between two steps of an editor, and an empty directory be a volume not yet mounted.
        sure = self._looks >= 2 and self._ever_found and not too_many
        complete = sure and all(file.good is not None for file in self._files.values())
        return Snapshot(tuple(self._objects.values()), tuple(problems), complete)

    def _stays(self, missed: int) -> bool:
        """Whether an object that was not found for the first time at look `missed` still counts."""
        bad = (file.bad_since for file in self._files.values() if file.bad_since is not None)
        return missed == self._looks or any(since >= missed - 1 for since in bad)

    def _in_order_of_precedence(self) -> list[Written]:
        """Of two that claim one name, the one whose file had it at the last look comes first, then by file."""

        def is_new(one: Written) -> bool:
            before = self._objects.get(one.key)
            return before is not None and before.file != one.file

        return sorted((one for name in sorted(self._files) for one in self._files[name].good or ()), key=is_new)


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """Files with our suffixes, hidden files and folders left out (editors and mounted ConfigMaps keep theirs there)."""
    count = 0

    def fail(error: OSError) -> None:
        if error.filename == str(root):
            raise error

    for folder, folders, files in os.walk(root, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                path = Path(folder, name)
                yield path.relative_to(root).as_posix(), path
                count += 1
                if count >= FILES_MAX:
                    return


def read_file(name: str, data: bytes) -> tuple[list[Written], list[FileProblem]]:
    """What a file says, and everything wrong with it. A kind that is not ours is reported and ignored."""
    try:
        documents = read_documents(data, is_json=name.lower().endswith(".json"))
    except BadDocument as bad:
        field = ".".join(map(str, bad.path))
        return [], [FileProblem(name, bad.line, field, bad.what, bad.cure)]
    written: dict[Key, Written] = {}
    problems: list[FileProblem] = []
    for document in documents:
        one = _read_object(name, document, problems)
        if one is None:
            continue
        if one.key in written:
            kind, namespace, called = one.key
            what = f"{kind} {namespace}/{called} is already on line {written[one.key].line} of this file"
            problems.append(FileProblem(name, one.line, "metadata.name", what, "remove or rename one of the two"))
        written[one.key] = one
    return list(written.values()), problems


def _read_object(name: str, document: Document, problems: list[FileProblem]) -> Written | None:
    try:
        resource = resources.parse(document.value)
    except Invalid as invalid:
        problems.extend(
            FileProblem(name, document.line_of(wrong.path), wrong.field, wrong.what, wrong.cure)
            for wrong in invalid.problems
        )
        return None
    if resource is None:
        what = f"{document.value.get('apiVersion')} {document.value.get('kind')} is not served here; it is ignored"
        known = ", ".join(kind for _, kind in resources.KINDS)
        cure = f"served are {known}; move the document elsewhere if it is not meant for this directory"
        problems.append(FileProblem(name, document.line_of(("kind",)), "kind", what, cure, ignored=True))
        return None
    return Written(resource, resources.spec_hash(document.value), name, document.line)
