"""The resources that `penstock up` serves by default: the example, or a copy of it that the user may edit.

The copy has another port of the sample subscriber. Once the folder exists it is always served, because resources that
are not in it would not be served any more. A file in it is rewritten only if the user has not changed it
(`.written.json` has the hashes); files that a user has edited, added or deleted stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.local.kafka.ports import LOOPBACK
from app.local.packaged import SUBSCRIBER_PORT
from controller.source.directory import SUFFIXES
from knative.errors import PenstockError, os_reason

_RECORD = ".written.json"  #: hidden, so that it is not taken for a resource file


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes to the copy."""

    write: Mapping[str, bytes]
    written: Mapping[str, str]  #: file -> hash of the content that Penstock wrote last; for the record
    kept: tuple[str, ...]  #: edited by hand, and different from what Penstock would write


def plan(files: Mapping[str, bytes], present: Mapping[str, bytes], written: Mapping[str, str]) -> Plan:
    """Decide what to write. `files`: those for this port; `present`: those in the copy; `written`: its record."""
    write: dict[str, bytes] = {}
    kept: list[str] = []
    record = dict(written)
    for name, content in files.items():
        now = present.get(name)
        if now is None and name in written:
            continue  # deleted by hand
        if now is None or now == content or _digest(now) == written.get(name):
            record[name] = _digest(content)
            if now != content:
                write[name] = content
        else:
            kept.append(name)
    return Plan(write, record, tuple(kept))


def resources_of_up(
    example: Path, home: Path, subscriber_port: int, *, in_place: bool = True
) -> tuple[Path, list[str]]:
    """Returns (the directory to serve, sentences about it). Raises PenstockError when the copy cannot be written.

    `in_place`: the example itself may be served; in an installed wheel it is not for editing.
    """
    copy = home / "quickstart"
    if in_place and not copy.is_dir() and subscriber_port in (0, SUBSCRIBER_PORT):
        return example, []
    kept = place_quickstart(example, copy, subscriber_port or SUBSCRIBER_PORT)
    notes = [f"Using the resources in {copy}."]
    if subscriber_port and kept:
        notes.append(
            f"These files were edited and are kept as they are: {', '.join(kept)}. The sample subscriber has port "
            f"{subscriber_port}."
        )
    return copy, notes


def place_quickstart(example: Path, copy: Path, subscriber_port: int) -> tuple[str, ...]:
    """Bring the copy up to date. Returns the files that were edited by hand. Raises PenstockError."""
    address = f"{LOOPBACK}:{subscriber_port}".encode()
    files = {
        name: content.replace(f"{LOOPBACK}:{SUBSCRIBER_PORT}".encode(), address)
        for name, content in _files(example).items()
    }
    try:
        copy.mkdir(parents=True, exist_ok=True)
        chosen = plan(files, _files(copy), _read_record(copy / _RECORD))
        # The record comes last: after a kill, a file that is not in it yet is compared with the example again.
        for name, content in chosen.write.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            _replace(copy / name, content)
        _replace(copy / _RECORD, json.dumps(chosen.written, indent=1).encode())
    except OSError as problem:
        raise PenstockError(
            f"The resources cannot be written to {copy}: {os_reason(problem)}.",
            "Choose another directory with --home DIR, or check the permissions and the free space of this directory.",
        ) from problem
    return chosen.kept


def _files(folder: Path) -> dict[str, bytes]:
    """Returns the files of resources in a folder: relative name -> content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _read_record(path: Path) -> dict[str, str]:
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):  # without a record, files are compared with the example
        return {}
    return {str(name): str(digest) for name, digest in record.items()} if isinstance(record, dict) else {}


def _replace(path: Path, content: bytes) -> None:
    """Replace a file in one step, so a reader never sees a part of it."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    os.replace(new, path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
