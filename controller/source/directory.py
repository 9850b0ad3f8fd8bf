"""Reads objects from a directory of YAML files: saving a file is like `kubectl apply`.

    stat -> changed? -> read -> documents -> resources -> the file's good state, or problems and the last good state

A file is accepted as a whole or not at all; documents of other kinds are ignored. What is in no file is not served any
more, but only when the directory is known completely: no file has a problem, and two scans in a row did not find it.
Editors save by truncating or renaming, and a scan may fall in between.

Links to folders are not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping
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
    complete: bool = False  #: objects that are missing here are in no file


@dataclass(frozen=True, slots=True)
class _File:
    signature: FileSignature | None  #: None = read it again next time
    digest: bytes
    good: tuple[Written, ...] = ()  #: the last good state
    problems: tuple[FileProblem, ...] = ()


class _Unreadable(Exception):
    """The directory as a whole cannot be read at this scan."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.problem = FileProblem(".", 0, "", what, hint)


class Directory:
    """The files of one directory and their objects. Blocking: call `scan` in a thread, one at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, _File] = {}
        self._objects: dict[Key, Written] = {}
        self._scanned = False

    def check(self) -> None:
        """Raises UsageError if the directory does not exist or cannot be read."""
        if self._root.is_file():
            raise UsageError(f"{str(self._root)!r} is a file, not a directory.", "Name the directory that it is in.")
        if not self._root.is_dir():
            raise UsageError(
                f"The resources directory {str(self._root)!r} does not exist.",
                "Create it and put the YAML of your channels and subscriptions there, or set PENSTOCK_RESOURCES.",
            )
        if not os.access(self._root, os.R_OK | os.X_OK):
            raise UsageError(
                f"The resources directory {str(self._root)!r} cannot be read.", "Give this user read permission on it."
            )

    def scan(self) -> Snapshot:
        """Scan once. If the directory is gone or has too many files, that is a problem, and everything stays."""
        try:
            paths, unread = _walk(self._root)
        except _Unreadable as untaken:
            return Snapshot(tuple(self._objects.values()), (untaken.problem,))
        behind = tuple(f"{problem.file}/" for problem in unread)
        kept = {name for name in self._files if name.startswith(behind)}
        for name in self._files.keys() - paths.keys() - kept:
            del self._files[name]
        for name in sorted(paths):
            file = self._scan_file(name, paths[name], self._files.pop(name, None))
            if file is not None:
                self._files[name] = file
        return self._merge(unread)

    def _scan_file(self, name: str, path: Path, before: _File | None) -> _File | None:
        """Returns None if the file was removed after the folder was listed."""
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
            if isinstance(error, FileNotFoundError) and not os.path.islink(path):
                return None
            return self._state(None, b"", before, (), (_unreadable(name, path, error),))
        # A second change within the resolution of the time stamp would not be noticed: read the file again next time.
        if abs(time.time() - status.st_mtime) < RACY_S:
            signature = None
        digest = hashlib.sha256(data).digest()
        if before is not None and before.digest == digest:
            return replace(before, signature=signature)
        written, problems = read_file(name, data)
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
        return _File(signature, digest, written, problems)

    def _merge(self, unread: list[FileProblem]) -> Snapshot:
        objects: dict[Key, Written] = {}
        problems = [*unread]
        for _, file in sorted(self._files.items()):
            problems += file.problems
        for written in self._in_order_of_precedence():
            first = objects.setdefault(written.key, written)
            if first is not written:
                what = f"{written} is already defined in {first.file}:{first.line}, which takes precedence"
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
        # The first scan may fall between two steps of an editor too.
        found_again = self._scanned and self._objects.keys() <= objects.keys()
        self._objects, self._scanned = dict(sorted(objects.items())), True
        complete = found_again and not any(_holds_back(problem) for problem in problems)
        return Snapshot(tuple(self._objects.values()), tuple(problems), complete)

    def _in_order_of_precedence(self) -> list[Written]:
        """Returns objects sorted so that, of two with the same name, the one in the same file as before comes first."""

        def is_new(written: Written) -> bool:
            before = self._objects.get(written.key)
            return before is not None and before.file != written.file

        files = (file for _, file in sorted(self._files.items()))
        return sorted((written for file in files for written in file.good), key=is_new)


def _walk(root: Path) -> tuple[dict[str, Path], list[FileProblem]]:
    """Returns files with our suffixes, and problems of folders that cannot be read. Raises _Unreadable.

    Hidden files and folders are skipped: editors and mounted ConfigMaps use them.
    """
    files: dict[str, Path] = {}
    unread: list[FileProblem] = []

    def fail(error: OSError) -> None:
        if Path(error.filename) == root:
            raise _Unreadable(f"the directory cannot be read: {error.strerror}", "restore it")
        name = _shown(Path(error.filename), root)
        what, hint = f"the folder cannot be read: {error.strerror}", "fix its permissions"
        if isinstance(error, FileNotFoundError):
            what, hint = "the folder was removed while it was read", "ignore this if the folder was removed"
        unread.append(FileProblem(name, 0, "", what, hint))

    for folder, folders, names in os.walk(root, onerror=fail):
        try:
            os.stat(f"{folder}/.")
        except OSError as error:  # its names can be listed, but its files cannot be read
            fail(error)
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(folder, name) for name in folders):
            if os.path.islink(path):
                what = "this is a link to a folder, which is not followed"
                hint = "put a folder there, or link to its files"
                unread.append(_left_out(_shown(path, root), 0, "", what, hint, suspected_typo=True))
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                if len(files) == FILES_MAX:
                    raise _Unreadable(f"it has more than {FILES_MAX} files; changes are ignored", "use fewer files")
                path = Path(folder, name)
                files[_shown(path, root)] = path
    return files, unread


def _shown(path: Path, root: Path) -> str:
    """Returns a path relative to the directory. Bytes that are not UTF-8 become \\x.., as in files and logs."""
    name = path.relative_to(root).as_posix()
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _unreadable(name: str, path: Path, error: OSError) -> FileProblem:
    if isinstance(error, FileNotFoundError):
        return FileProblem(name, 0, "", "this is a broken link", "fix or remove the link")
    return FileProblem(name, 0, "", f"the file cannot be read: {error.strerror}", "fix its permissions")


def _holds_back(problem: FileProblem) -> bool:
    """Returns whether an object that is missing may be behind this problem."""
    return not problem.ignored or problem.suspected_typo


def _left_out(
    file: str, line: int, field: str, what: str, hint: str, about: str = "", *, suspected_typo: bool = False
) -> FileProblem:
    return FileProblem(file, line, field, what, hint, ignored=True, suspected_typo=suspected_typo, object=about)


def read_file(name: str, data: bytes) -> tuple[list[Written], list[FileProblem]]:
    """Returns the objects of a file, and all its problems. Documents of other kinds are reported and ignored."""
    try:
        documents = read_documents(data, is_json=name.lower().endswith(".json"))
    except BadDocument as bad:
        field = field_text(bad.path)
        return [], [FileProblem(name, bad.line, field, bad.what, bad.hint)]
    written: dict[Key, Written] = {}
    problems: list[FileProblem] = []
    for document in documents:
        object_ = _read_object(name, document, problems)
        if object_ is None:
            continue
        if object_.key in written:
            what = f"{object_} is already on line {written[object_.key].line} of this file"
            hint = "remove or rename one of the two"
            problems.append(FileProblem(name, object_.line, "metadata.name", what, hint, object=str(object_)))
        written[object_.key] = object_
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
        names = ", ".join(kind for _, kind in kinds.KINDS)
        hint = f"did you mean {meant}? If not," if meant else f"supported kinds: {names};"
        hint += " move the document to another directory"
        problems.append(
            _left_out(name, document.line_of(("kind",)), "kind", what, hint, about, suspected_typo=bool(meant))
        )
        return None
    return Written(resource, kinds.spec_hash(document.value), name, document.line)


def _label(value: Mapping[str, object]) -> str:
    """Returns the name of a document's object, such as `KafkaChannel default/orders`; "" if it has none."""
    metadata = value.get("metadata")
    kind, name = value.get("kind"), metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(kind, str) or not isinstance(name, str):
        return ""
    return f"{kind[:64]} {str(metadata.get('namespace') or 'default')[:64]}/{name[:253]}"
