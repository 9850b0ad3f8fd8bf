"""Statuses and notes as files: one JSON file for each object, the directory's problems, removals under way.

    <state_dir>/<kind>/<namespace>.<name>.json    status of an object, gone with it
    <state_dir>/problems.json                     what is wrong in the resources directory
    <state_dir>/removals.json                     what is being removed, for the next process

Each is written beside itself and renamed, and only when it says something new: a reader never sees half a file.
Blocking, but short. Refuses to decide what is said.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from controller.actions import Removal, WriteStatus
from controller.directory import FileProblem
from knative.conditions import Condition, Truth, with_transitions

log = structlog.get_logger(__name__)

API_VERSIONS = {"KafkaChannel": "messaging.knative.dev/v1beta1", "Subscription": "messaging.knative.dev/v1"}


class StatusFiles:
    """The files of one state directory. Errors of the file system are raised as OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: dict[Path, str] = {}

    def write(self, status: WriteStatus, now: float) -> bool:
        """Write an object's status; False when it said the same already. `now`: Unix seconds."""
        path = self._path(status.kind, status.namespace, status.name)
        before = _conditions(self._load(path).get("status"))
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = with_transitions(status.conditions, before, moment)
        document = {
            "apiVersion": API_VERSIONS.get(status.kind, ""),
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
        _log_transition(status, before, conditions)
        return self._save(path, document)

    def keep_only(self, statuses: Iterable[WriteStatus]) -> None:
        """Remove the files of objects that are no more."""
        keep = {self._path(one.kind, one.namespace, one.name) for one in statuses}
        for kind in API_VERSIONS:
            for path in (self._root / kind).glob("*.json"):
                if path not in keep:
                    path.unlink(missing_ok=True)
                    self._written.pop(path, None)

    def write_problems(self, problems: Sequence[FileProblem]) -> bool:
        """Write problems.json; an empty list says that all is well."""
        return self._save(self._root / "problems.json", {"problems": [asdict(problem) for problem in problems]})

    def load_removals(self) -> dict[str, Removal]:
        """Removals that a process before this one did not finish."""
        found = self._load(self._root / "removals.json").get("removals", [])
        try:
            removals = [Removal(**{**one, "topics": tuple(one["topics"])}) for one in found]
        except (TypeError, KeyError) as error:
            log.error("notes of removals cannot be read; their topics and groups stay", notes=found, reason=str(error))
            return {}
        return {removal.uid: removal for removal in removals}

    def save_removals(self, removals: Mapping[str, Removal]) -> None:
        """Note them durably: on the disk, not only on its way."""
        self._save(self._root / "removals.json", {"removals": [asdict(one) for one in removals.values()]}, durable=True)

    def _path(self, kind: str, namespace: str, name: str) -> Path:
        return self._root / kind / f"{namespace}.{name}.json"

    def _load(self, path: Path) -> dict[str, Any]:
        text = self._written.get(path)
        if text is None:
            try:
                text = path.read_text("utf-8")
            except FileNotFoundError:
                return {}
        try:
            found = json.loads(text)
        except ValueError as error:
            log.warning("state file cannot be read; it is written anew", file=str(path), reason=str(error))
            return {}
        if not isinstance(found, dict):
            return {}
        self._written[path] = text
        return found

    def _save(self, path: Path, document: Mapping[str, Any], *, durable: bool = False) -> bool:
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        if self._written.get(path) == text and path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
        self._written[path] = text
        return True


def _conditions(status: object) -> list[Condition]:
    found = status.get("conditions") if isinstance(status, dict) else None
    known = {truth.value for truth in Truth}
    return [
        Condition(
            one["type"], Truth(one["status"]), one.get("reason", ""), one.get("message", ""), one["lastTransitionTime"]
        )
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict) and "type" in one and one.get("status") in known and "lastTransitionTime" in one
    ]


def _log_transition(status: WriteStatus, before: Sequence[Condition], after: Sequence[Condition]) -> None:
    """One line when an object becomes ready or ceases to be, or is not ready for another reason."""
    old = next((one for one in before if one.type == "Ready"), None)
    new = next((one for one in after if one.type == "Ready"), None)
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return
    write = log.warning if new.status is Truth.FALSE else log.info
    write(
        "resource is ready" if new.status is Truth.TRUE else "resource is not ready",
        kind=status.kind,
        resource=f"{status.namespace}/{status.name}",
        generation=status.generation,
        reason=new.reason,
        message=new.message,
    )
