"""State files: the status of each object and the directory's problems, for people and programs on this machine.

    <state_dir>/<kind>/<namespace>.<name>.json    status of an object, removed with it
    <state_dir>/problems.json                     problems in the resources directory

A file is written under a temporary name and renamed, and only if its content changes, so readers never see half a file.
A name that is too long for a file system is truncated and ends with a digest. Blocking, but short.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from controller.model import FileProblem, Record
from controller.plan.actions import WriteStatus
from controller.status.changes import log_changes
from knative import timefmt
from knative.errors import UsageError, os_reason
from knative.resources.conditions import Condition, conditions_of, with_transitions
from knative.resources.kinds import API_VERSIONS

log = structlog.get_logger(__name__)

NAME_BYTES_MAX = 255  #: of a file name, on every file system in common use


def status_file(root: Path, kind: str, namespace: str, name: str) -> Path:
    """Returns where the status of this object is in the state directory `root`."""
    file = f"{namespace}.{name}.json"
    if len(file) > NAME_BYTES_MAX:  # names are ASCII
        digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:16]
        file = f"{file[:200]}-{digest}.json"
    return root / kind / file


class StatusFiles:
    """The files of one state directory. Methods raise OSError unless they say otherwise."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: dict[Path, tuple[WriteStatus, Sequence[Condition]]] = {}  #: with the times of its conditions
        self._unwritten: dict[str, str] = {}  #: target of a status -> why its file could not be written

    def check(self) -> None:
        """Create the directory. Raises UsageError if it cannot be written."""
        hint = "Set PENSTOCK_STATE_DIR to a directory that this user can write."
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = "it is a file" if self._root.is_file() else os_reason(error)
            raise UsageError(f"The state directory {str(self._root)!r} cannot be created: {why}.", hint) from error
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"The state directory {str(self._root)!r} cannot be written.", hint)

    def forget(self) -> None:
        """Drop the cached contents, because another process may have written the files."""
        self._written.clear()

    def write_all(self, statuses: Iterable[WriteStatus], now: float) -> None:
        """Write every status. A failure is logged once, does not stop the others, and is retried at the next call."""
        unwritten: dict[str, str] = {}
        for status in statuses:
            try:
                self.write(status, now)
            except OSError as error:
                unwritten[status.target] = str(error)
                if self._unwritten.get(status.target) != str(error):
                    resource = f"{status.namespace}/{status.name}"
                    log.error("status cannot be written", kind=status.kind, resource=resource, reason=str(error))
        self._unwritten = unwritten

    def write(self, status: WriteStatus, now: float) -> bool:
        """Write an object's status; False if it has not changed. `now`: Unix seconds."""
        path = status_file(self._root, status.kind, status.namespace, status.name)
        last, before = self._written.get(path) or (None, _conditions_in(path))
        if last == status and path.exists():
            return False  # of thousands at rest: making and reading the text takes longer than the decision
        moment = timefmt.in_seconds(now)
        conditions = with_transitions(status.conditions, before, moment)
        document = {
            "apiVersion": API_VERSIONS[status.kind],
            "kind": status.kind,
            "metadata": {
                "namespace": status.namespace,
                "name": status.name,
                "uid": status.uid,
                "generation": status.generation,
            },
            "status": {
                "observedGeneration": status.generation,
                "conditions": [condition.as_dict() for condition in conditions],
                **status.body,
            },
        }
        log_changes(status, before, conditions)
        changed = _save(path, document)
        self._written[path] = status, conditions
        return changed

    def keep_only(self, alive: Iterable[WriteStatus | Record]) -> None:
        """Remove the files of objects that no longer exist."""
        keep = {status_file(self._root, record.kind, record.namespace, record.name) for record in alive}
        for kind in API_VERSIONS:
            for path in (self._root / kind).glob("*.json"):
                if path not in keep:
                    path.unlink(missing_ok=True)
                    self._written.pop(path, None)

    def write_problems(self, problems: Sequence[FileProblem]) -> bool:
        """Write problems.json. An empty list means that there are no problems."""
        return _save(self._root / "problems.json", {"problems": [asdict(problem) for problem in problems]})


def _conditions_in(path: Path) -> Sequence[Condition]:
    """Returns the conditions in a status file; none if the file does not exist, or is not a JSON object in UTF-8."""
    try:
        document = json.loads(path.read_text("utf-8"))
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
    except FileNotFoundError:
        return ()
    except ValueError as error:
        log.warning("state file cannot be read; writing it again", file=str(path), reason=str(error))
        return ()
    return conditions_of(document.get("status"))


def _save(path: Path, document: Mapping[str, Any]) -> bool:
    """Write the file; False if it has this content already."""
    content = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    with suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name is random: two processes in containers may share this directory and their process id.
    beside = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return True
