"""Reads objects from a directory of YAML files: saving or removing a file is like `kubectl apply` or `delete`.

    stat -> changed? -> read -> documents -> resources -> the file's good state, or problems and the last good state

A file is accepted as a whole or not at all; documents of other kinds are ignored. The rules against removing things by
accident:

- An object counts as removed only if two scans in a row do not find it. Editors save by truncating or renaming, and a
  scan in between must not delete a topic.
- While a file has a problem, or its folder cannot be read, none of its objects count as removed. Nor do objects that
  vanished elsewhere when the file got its problem, because they may have moved there.
- A file that is empty now keeps its resources. Only removing the file removes them.
- If all of several files vanish at once, a volume may be unmounted: everything stays for half a minute.

Links to folders are not followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from controller.model import FileProblem, Key
from controller.source.yaml_reader import FILE_BYTES_MAX, BadDocument, Document, read_documents
from knative.errors import UsageError
from knative.file_signature import FileSignature, file_signature
from knative.resources import kinds
from knative.resources.kinds import Invalid
from knative.resources.object_reader import field_text
from knative.resources.values import Resource

SUFFIXES = (".yaml", ".yml", ".json")
FILES_MAX = 10_000
SCANS_MIN = 2  #: an object counts as removed after this many scans without it
EMPTIED_S = 30.0  #: how long everything stays if all of several files vanish at once
RACY_S = 2.0  #: a file that changed this recently may change again within the resolution of its time stamp


@dataclass(frozen=True, slots=True)
class Written:
    """One object as written in a file."""

    resource: Resource
    spec_hash: str
    file: str
    line: int

    @property
    def key(self) -> Key:
        """(kind, namespace, name)."""
        return self.resource.kind, self.resource.namespace, self.resource.name

    def __str__(self) -> str:
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of the directory at one scan."""

    objects: tuple[Written, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    complete: bool = (
        False  #: every file was read, at least twice, without problems: objects that are missing here do not exist
    )


@dataclass(frozen=True, slots=True)
class _File:
    signature: FileSignature | None  #: None = read it again next time
    digest: bytes
    good: tuple[Written, ...] = ()  #: the last good state
    problems: tuple[FileProblem, ...] = ()
    since: int = 0  #: the scan since which it has problems
    emptied: bool = False  #: it has no document any more; its objects in `good` count unless another file has them


class _Unreadable(Exception):
    """The directory as a whole cannot be read at this scan."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.problem = FileProblem(".", 0, "", what, hint)


class Directory:
    """The files of one directory and their objects. Blocking: call `scan` in a thread, one at a time."""

    def __init__(self, root: Path, emptied_s: float = EMPTIED_S) -> None:
        self._root = root
        self._emptied_s = emptied_s
        self._emptied_at: float | None = None
        self._files: dict[str, _File] = {}
        #: object that is kept although it was not found -> (first scan without it, scans without it that count)
        self._missed: dict[Key, tuple[int, int]] = {}
        self._scans = 0
        self._objects: dict[Key, Written] = {}

    def check(self) -> None:
        """Raises UsageError if the directory does not exist or cannot be read."""
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
        """Scan once. If the directory is gone or has too many files, that is a problem, and everything stays."""
        try:
            found, unread = _walk(self._root)
        except _Unreadable as untaken:
            return Snapshot(tuple(self._objects.values()), (untaken.problem,))
        behind = tuple(f"{problem.file}/" for problem in unread)
        kept = {name for name in self._files if name.startswith(behind)}
        emptied = self._emptied(found.keys() | kept)
        if emptied is not None:
            return Snapshot(tuple(self._objects.values()), (emptied, *unread))
        self._scans += 1
        for name in self._files.keys() - found.keys() - kept:
            del self._files[name]
        for name in sorted(found):
            self._files[name] = self._scan_file(name, found[name], self._files.get(name))
        return self._merge(unread)

    def _emptied(self, found: Collection[str]) -> FileProblem | None:
        """The problem that all files vanished at once, as long as their objects stay."""
        if found or len(self._files) < 2:
            self._emptied_at = None
            return None
        now = time.monotonic()
        if self._emptied_at is None:
            self._emptied_at = now
        if now - self._emptied_at >= self._emptied_s:
            return None
        what = f"all {len(self._files)} files disappeared at once; their resources are kept for {self._emptied_s:g} s"
        return FileProblem(".", 0, "", what, "restore them, or their channels and topics are removed after that time")

    def _scan_file(self, name: str, path: Path, before: _File | None) -> _File:
        try:
            status = path.stat()
            signature: FileSignature | None = file_signature(status)
            if before is not None and before.signature == signature:
                return before
            if not stat.S_ISREG(status.st_mode):  # opening a FIFO blocks until another process writes to it
                problem = FileProblem(name, 0, "", "this is a FIFO, a socket or a device, not a file", "remove it")
                return self._state(signature, b"", before, (), (problem,))
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            return self._state(None, b"", before, (), (_unreadable(name, path, error),))
        # A second change within the resolution of the time stamp would not be noticed: read the file again next time.
        if abs(time.time() - status.st_mtime) < RACY_S:
            signature = None
        digest = hashlib.sha256(data).digest()
        if before is not None and before.digest == digest:
            return replace(before, signature=signature)
        written, problems = read_file(name, data)
        if not written and not problems:
            retained = before.good if before else ()
            since = before.since if before and before.problems else self._scans
            return _File(signature, digest, retained, (_holds_nothing(name),), since, emptied=True)
        return self._state(signature, digest, before, tuple(written), tuple(problems))

    def _state(
        self,
        signature: FileSignature | None,
        digest: bytes,
        before: _File | None,
        written: tuple[Written, ...],
        problems: tuple[FileProblem, ...],
    ) -> _File:
        if any(not problem.ignored for problem in problems):
            written = before.good if before else ()
        since = before.since if before and before.problems else self._scans
        return _File(signature, digest, written, problems, since)

    def _merge(self, unread: list[FileProblem]) -> Snapshot:
        objects: dict[Key, Written] = {}
        problems = [*unread]
        for _, file in sorted(self._files.items()):
            problems += () if file.emptied else file.problems  # `_keep_emptied` reports these
        for written in self._in_order_of_precedence():
            first = objects.setdefault(written.key, written)
            if first is not written:
                what = f"{written} is already in {first.file}:{first.line}, which counts"
                problems.append(
                    _left_out(
                        written.file,
                        written.line,
                        "metadata.name",
                        what,
                        "remove one",
                        str(written),
                        suspected_typo=True,
                    )
                )
        problems += self._keep_emptied(objects)
        problems += self._keep_missing(objects, {problem.file for problem in problems})
        self._objects = dict(sorted(objects.items()))
        # The first scan may fall between two steps of an editor.
        complete = self._scans >= SCANS_MIN and not problems
        return Snapshot(tuple(self._objects.values()), tuple(problems), complete)

    def _keep_emptied(self, objects: dict[Key, Written]) -> list[FileProblem]:
        """Add to `objects` those of emptied files that no other file has; returns a problem for each such file."""
        problems: list[FileProblem] = []
        for name, file in sorted(self._files.items()):
            if not file.emptied:
                continue
            kept = [one for one in file.good if one.key not in objects]
            objects.update((one.key, one) for one in kept)
            problems += [_emptied_file(name, kept)] if kept else file.problems
        return problems

    def _keep_missing(self, objects: dict[Key, Written], with_problems: Collection[str]) -> list[FileProblem]:
        """Add to `objects` those that were not found but do not count as removed yet; returns the problems that keep
        some of them."""
        problems: list[FileProblem] = []
        missed: dict[Key, tuple[int, int]] = {}
        for key in sorted(self._objects.keys() - objects.keys()):
            before = self._objects[key]
            vanished, scans = self._missed.get(key, (self._scans, 0))
            holder = self._holder(before, vanished, with_problems)
            if holder:
                what = f"{before}, which was in {before.file}, is kept until this file is valid"
                hint = "fix this file; after that, resources that are in no file are removed"
                problems.append(_left_out(holder, 0, "", what, hint, str(before)))
            scans = 0 if holder else scans + 1
            if scans < SCANS_MIN:
                missed[key], objects[key] = (vanished, scans), before
        self._missed = missed
        return problems

    def _holder(self, missing: Written, vanished: int, with_problems: Collection[str]) -> str:
        """The file whose problems keep an object that is missing since scan `vanished`; "" = none."""
        if missing.file in with_problems and missing.file in self._files:
            return missing.file
        # It may have moved into a file that can no longer be read: since this scan, or since the one before, if that
        # fell between two saves. A file with older problems holds nothing back.
        moved = (name for name, file in self._files.items() if file.problems and file.since >= vanished - 1)
        return min(moved, default="")

    def _in_order_of_precedence(self) -> list[Written]:
        """Objects sorted so that, of two with the same name, the one in the same file as before comes first."""

        def is_new(one: Written) -> bool:
            before = self._objects.get(one.key)
            return before is not None and before.file != one.file

        files = (file for _, file in sorted(self._files.items()) if not file.emptied)
        return sorted((one for file in files for one in file.good), key=is_new)


def _walk(root: Path) -> tuple[dict[str, Path], list[FileProblem]]:
    """Files with our suffixes, and problems of folders that cannot be read. Raises _Unreadable.

    Hidden files and folders are skipped: editors and mounted ConfigMaps use them.
    """
    files: dict[str, Path] = {}
    unread: list[FileProblem] = []

    def fail(error: OSError) -> None:
        if Path(error.filename) == root:
            raise _Unreadable(f"the directory cannot be read: {error.strerror}", "restore it")
        name = _shown(Path(error.filename), root)
        unread.append(FileProblem(name, 0, "", f"the folder cannot be read: {error.strerror}", "fix its permissions"))

    for folder, folders, names in os.walk(root, onerror=fail):
        if not os.access(folder, os.X_OK):  # its names can be listed, but its files cannot be read
            fail(PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder))
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(folder, name) for name in folders):
            if os.path.islink(path):
                what = "this is a link to a folder, which is not followed"
                hint = "put a folder there, or link its files"
                unread.append(_left_out(_shown(path, root), 0, "", what, hint, suspected_typo=True))
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                if len(files) == FILES_MAX:
                    raise _Unreadable(f"it has more than {FILES_MAX} files; changes are ignored", "use fewer files")
                path = Path(folder, name)
                files[_shown(path, root)] = path
    return files, unread


def _shown(path: Path, root: Path) -> str:
    """A path relative to the directory. Bytes that are not UTF-8 become \\x.., as names appear in files and logs."""
    name = path.relative_to(root).as_posix()
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _unreadable(name: str, path: Path, error: OSError) -> FileProblem:
    if isinstance(error, FileNotFoundError):
        what, hint = "this is a broken link", "fix or remove the link"
        if not os.path.islink(path):
            what, hint = "the file vanished while it was read", "do nothing if it was removed"
        return FileProblem(name, 0, "", what, hint)
    return FileProblem(name, 0, "", f"the file cannot be read: {error.strerror}", "fix its permissions")


def _emptied_file(name: str, kept: list[Written]) -> FileProblem:
    more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    what = f"the file is empty now; {kept[0]}{more}, which it held, stay{'' if more else 's'}"
    return FileProblem(name, 0, "", what, "delete the file to remove its resources, or put them back")


def _holds_nothing(name: str) -> FileProblem:
    """The problem of a file without a document. This process may not know what it held before."""
    what = "the file is empty; if it contained resources, they are kept"
    return _left_out(name, 0, "", what, "delete the file")


def _left_out(
    file: str, line: int, field: str, what: str, hint: str, about: str = "", *, suspected_typo: bool = False
) -> FileProblem:
    return FileProblem(file, line, field, what, hint, ignored=True, suspected_typo=suspected_typo, object=about)


def read_file(name: str, data: bytes) -> tuple[list[Written], list[FileProblem]]:
    """The objects of a file, and all its problems. Documents of other kinds are reported and ignored."""
    try:
        documents = read_documents(data, is_json=name.lower().endswith(".json"))
    except BadDocument as bad:
        field = field_text(bad.path)
        return [], [FileProblem(name, bad.line, field, bad.what, bad.hint)]
    written: dict[Key, Written] = {}
    problems: list[FileProblem] = []
    for document in documents:
        one = _read_object(name, document, problems)
        if one is None:
            continue
        if one.key in written:
            what = f"{one} is already on line {written[one.key].line} of this file"
            hint = "remove or rename one of the two"
            problems.append(FileProblem(name, one.line, "metadata.name", what, hint, object=str(one)))
        written[one.key] = one
    return list(written.values()), problems


def _read_object(name: str, document: Document, problems: list[FileProblem]) -> Written | None:
    about = _label(document.value)
    try:
        resource = kinds.parse(document.value)
    except Invalid as invalid:
        problems.extend(
            FileProblem(name, document.line_of(wrong.path), wrong.field, wrong.what, wrong.hint, object=about)
            for wrong in invalid.problems
        )
        return None
    if resource is None:
        kind = document.value.get("kind")
        what = f"{document.value.get('apiVersion')} {kind} is not supported; it is ignored"
        meant = kinds.meant(kind)
        known = ", ".join(kind for _, kind in kinds.KINDS)
        hint = f"did you mean {meant}?" if meant else f"supported kinds: {known}"
        hint += "; move the document elsewhere if it is not meant for this directory"
        problems.append(
            _left_out(name, document.line_of(("kind",)), "kind", what, hint, about, suspected_typo=bool(meant))
        )
        return None
    return Written(resource, kinds.spec_hash(document.value), name, document.line)


def _label(value: Mapping[str, object]) -> str:
    """The name of a document's object, such as `KafkaChannel default/orders`; "" if it has none."""
    metadata = value.get("metadata")
    kind, name = value.get("kind"), metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(kind, str) or not isinstance(name, str):
        return ""
    return f"{kind[:64]} {str(metadata.get('namespace') or 'default')[:64]}/{name[:253]}"
