"""The folder of one query: a sub-folder for each batch, the state after it, and Spark's checkpoint beside them.

    records/checkpoint/            Spark's: offsets and commits of batches        written together, deleted together:
    records/parts/batch=0000000012/windows.parquet, facts.json                    both carry the id of tables.json
    records/parts/upto=0000000010/ the same, of batches 0 to 10 (compaction)

    batch 11   batch 12   kill   batch 12 again                 a batch's folder appears as a whole, by a rename, and
       |----------|-----/ /---------|--->                       a repeated batch replaces it: the same sums once more

The state before a batch is that of the previous batch, never "the latest on disk", so a repeated batch starts from the
same state as before. Compaction takes only batches that the checkpoint has committed, because Spark never repeats
those. Raises PenstockError with a hint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.traffic import checkpoint
from analytics.traffic.windows import HOUR_S, SCHEMA, coarsen, merge
from knative.errors import PenstockError, UsageError, os_reason

FORMAT = 1
TABLES = "tables.json"
WINDOWS = "windows.parquet"
FACTS = "facts.json"
_ID = "penstock-id"

#: Number of batch folders from which on they are compacted.
BATCHES_MAX = 24
KEEP_MINUTES_S = 3 * 86_400.0  #: windows of a minute older than this become hours
KEEP_S = 60 * 86_400.0  #: and windows of an hour older than this are dropped


class BrokenTablesError(PenstockError):
    """The job cannot continue with the content of the folder."""


@dataclass(frozen=True, slots=True)
class Part:
    """One folder of sums: of one batch, or (compacted) of all batches up to one."""

    path: Path
    batch: int
    compacted: bool


class QueryStore:
    """The batches of one query under `folder`. `id_` is the id in tables.json."""

    def __init__(self, folder: Path, id_: str) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.parts_folder = folder / "parts"
        self._id = id_

    def open(self) -> None:
        """Create what is missing. Raises BrokenTablesError when checkpoint and parts do not belong together."""
        have_checkpoint = (self.checkpoint / "offsets").is_dir()
        have_parts = bool(parts(self.parts_folder))
        for place, is_there in ((self.checkpoint, have_checkpoint), (self.parts_folder, have_parts)):
            marker = place / _ID
            if is_there and (not marker.is_file() or marker.read_text() != self._id):
                raise BrokenTablesError(*_apart(self.folder))
        # A part is written before Spark commits its batch: parts may be a batch ahead of the checkpoint, never behind.
        committed = self.committed()
        reached = max((part.batch for part in parts(self.parts_folder)), default=None)
        if committed is not None and (reached is None or reached < committed):
            raise BrokenTablesError(*_apart(self.folder))
        if reached is not None and not have_checkpoint:
            raise BrokenTablesError(*_apart(self.folder))
        for place in (self.checkpoint, self.parts_folder):
            place.mkdir(parents=True, exist_ok=True)
            _write(place / _ID, self._id.encode())
        # Leftovers of a kill during a write or a compaction; no valid part needs them.
        for left_over in (*self.parts_folder.glob(".tmp-*"), *superseded(self.parts_folder)):
            shutil.rmtree(left_over, ignore_errors=True)

    def committed(self) -> int | None:
        """The last batch that the checkpoint has committed; None = none."""
        return checkpoint.committed(self.checkpoint)

    def forget(self, topics: Collection[str]) -> None:
        """Read these replaced topics from their start; drop the batch that was begun and not committed."""
        committed = self.committed()
        # Parts first, checkpoint last: after a kill in between, the topics still count as replaced.
        for part in parts(self.parts_folder):
            if not part.compacted and (committed is None or part.batch > committed):
                shutil.rmtree(part.path)
        checkpoint.forget(self.checkpoint, topics)

    def state_before(self, batch: int) -> dict[str, Any]:
        """The facts of the previous batch; {} for the first."""
        if batch == 0:
            return {}
        for part in parts(self.parts_folder):
            if part.batch == batch - 1:
                return read_facts(part.path)
        raise BrokenTablesError(
            f"The tables in {self.folder} lack batch {batch - 1}; batch {batch} cannot continue.",
            reset_hint(self.folder),
        )

    def last_facts(self) -> dict[str, Any]:
        """The facts of the last batch; {} when there is none."""
        found = parts(self.parts_folder)
        return read_facts(found[-1].path) if found else {}

    def write(self, batch: int, table: pa.Table, facts: Mapping[str, Any]) -> None:
        """Write the sums of a batch; replaces those of an earlier attempt."""
        self._put(f"batch={batch:010}", table, facts)

    def compact(
        self, now_s: float, least: int = BATCHES_MAX, keep_minutes_s: float = KEEP_MINUTES_S, keep_s: float = KEEP_S
    ) -> int:
        """Merge the committed batches if there are at least `least`; returns the number of merged folders."""
        committed = self.committed()
        old = [part for part in parts(self.parts_folder) if committed is not None and part.batch <= committed]
        if len(old) < max(2, least):
            return 0
        last = old[-1]
        try:
            whole = merge([pq.read_table(part.path / WINDOWS, schema=SCHEMA) for part in old])
        except (pa.ArrowException, OSError) as problem:
            raise BrokenTablesError(
                f"The tables in {self.folder} cannot be read ({problem}).", reset_hint(self.folder)
            ) from problem
        facts = read_facts(last.path)
        for name in facts.get("counters", {}):
            facts["counters"][name] = sum(read_facts(part.path)["counters"].get(name, 0) for part in old)
        # The new part supersedes the old ones as soon as it has its name (see `parts`), so nothing counts
        # twice after a kill before the removal.
        self._put(f"upto={last.batch:010}", age(whole, now_s, keep_minutes_s, keep_s), facts)
        for path in superseded(self.parts_folder):
            shutil.rmtree(path)
        return len(old)

    def _put(self, name: str, table: pa.Table, facts: Mapping[str, Any]) -> None:
        target, staging = self.parts_folder / name, self.parts_folder / f".tmp-{name}-{uuid.uuid4().hex[:8]}"
        staging.mkdir(parents=True)
        pq.write_table(table, staging / WINDOWS, compression="zstd")
        # The data must reach the disk before the rename does, or a crash could leave a valid name with empty files.
        with (staging / WINDOWS).open("rb") as written:
            os.fsync(written.fileno())
        _write(staging / FACTS, json.dumps(facts, separators=(",", ":")).encode())
        # What is there is of the same batch: after a kill before Spark's commit, the batch is repeated.
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
        _sync_folder(self.parts_folder)


def reset_hint(inside: Path) -> str:
    """The hint for tables that the job cannot continue with. `inside` is the tables' folder or a path in it."""
    folder = next((one for one in (inside, *inside.parents) if (one / TABLES).exists()), inside)
    return f"Count again from the records that Kafka still has: penstock job traffic --folder {folder} --reset."


def parts(folder: Path) -> list[Part]:
    """The valid folders, by batch: those that a compaction has merged are no longer valid."""
    found = _all_parts(folder)
    base = _base(found)
    counting = [part for part in found if part.batch > base or (part.compacted and part.batch == base)]
    return sorted(counting, key=lambda part: part.batch)


def superseded(folder: Path) -> list[Path]:
    """Folders that a compaction has merged and that a kill kept it from removing."""
    found = _all_parts(folder)
    base = _base(found)
    return [part.path for part in found if part.batch < base or (part.batch == base and not part.compacted)]


def _all_parts(folder: Path) -> list[Part]:
    found = []
    try:
        paths = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    for path in paths:
        kind, _, number = path.name.partition("=")
        if kind in ("batch", "upto") and number.isdigit():
            found.append(Part(path, int(number), kind == "upto"))
    return found


def _base(found: Collection[Part]) -> int:
    """The last batch that a compaction has merged; -1 = none."""
    return max((part.batch for part in found if part.compacted), default=-1)


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a part. Raises BrokenTablesError if they are not readable."""
    try:
        found = json.loads((folder / FACTS).read_bytes())
    except (OSError, ValueError) as problem:
        raise BrokenTablesError(
            f"{folder / FACTS} cannot be read ({problem}).",
            reset_hint(folder),
        ) from problem
    if not isinstance(found, dict):
        raise BrokenTablesError(f"{folder / FACTS} does not contain an object.", reset_hint(folder))
    return found


def age(table: pa.Table, now_s: float, keep_minutes_s: float, keep_s: float) -> pa.Table:
    """Merge old minutes into hours, and drop what is older than `keep_s`."""
    import pyarrow.compute as pc

    kept = table.filter(pc.greater_equal(table["start"], int(now_s - keep_s)))
    # Only whole hours: an hour of which a part is still recent stays in minutes.
    old = pc.less(kept["start"], int(now_s - keep_minutes_s) // HOUR_S * HOUR_S)
    return merge([kept.filter(pc.invert(old)), coarsen(kept.filter(old), HOUR_S)])


def open_tables(folder: Path, instance: str, cluster: str) -> str:
    """The id of the tables in `folder`; creates them if it is new. Raises as `check_tables`."""
    found = check_tables(folder, instance, cluster)
    if found is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    about = {"format": FORMAT, "id": uuid.uuid4().hex, "instance": instance, "cluster": cluster}
    _write(folder / TABLES, json.dumps(about).encode())
    return str(about["id"])


def check_tables(folder: Path, instance: str, cluster: str) -> str | None:
    """The id of the tables in `folder`; None = there are none, and they can be created.

    Raises BrokenTablesError when the folder holds something else or is not readable, UsageError when the tables belong
    to another Kafka or instance, PenstockError when the folder is not writable.
    """
    path = folder / TABLES
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))  # an empty file fits on a full disk
        content = path.read_bytes() if path.exists() else None
        others = any(folder.iterdir())
    except OSError as problem:
        raise _not_writable(folder, problem) from problem
    if content is None:
        if others:
            raise BrokenTablesError(
                f"{folder} is not empty, and there is no {TABLES} in it.",
                "Use an empty or a new folder: --folder DIR.",
            )
        return None
    try:
        about = json.loads(content)
        same_format, owner = about["format"] == FORMAT, (about["instance"], about["cluster"])
    except (ValueError, KeyError, TypeError) as problem:
        raise BrokenTablesError(f"{path} cannot be read ({problem}).", reset_hint(folder)) from None
    if not same_format:
        raise BrokenTablesError(f"{path} was written by another version of Penstock.", reset_hint(folder))
    if owner != (instance, cluster):
        raise UsageError(
            f"The tables in {folder} were counted on another Kafka, or for another instance ({owner[0]}).",
            "Use another folder: --folder DIR.",
        )
    return str(about["id"])


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Lock the folder for one run: a second run would write to the same batches. Raises PenstockError.

    The lock file is beside the folder, because the run may delete the folder. The kernel releases the lock when the
    process ends.
    """
    lock = folder.with_name(f".{folder.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(lock)
    except BlockingIOError:
        raise PenstockError(
            f"Another job is writing to {folder}.", "Wait for it, stop it, or use another --folder DIR."
        ) from None
    except OSError as problem:
        raise _not_writable(folder, problem) from problem
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):  # the system names no file that it cannot write to
            raise _not_writable(folder, problem) from problem
        raise
    finally:
        lock.unlink(missing_ok=True)  # while it is held, so that nobody else holds this file
        os.close(handle)


def _locked(lock: Path) -> int:
    """Lock the file. Raises BlockingIOError if another process holds it."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        os.close(handle)  # its last holder has removed it since it was opened


def continues(folder: Path) -> bool:
    """Whether the tables are of a job that continues where it ended, and not the count of a time range: that has no
    checkpoint."""
    return any(folder.glob("*/checkpoint/offsets"))


def wipe(folder: Path) -> None:
    """Delete checkpoints and tables together. Raises UsageError for a folder without tables of Penstock."""
    if not folder.exists():
        return
    if not (folder / TABLES).exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} does not contain tables of Penstock ({TABLES} is missing).", "Nothing was deleted.")
    shutil.rmtree(folder)


def _not_writable(folder: Path, problem: OSError) -> PenstockError:
    return PenstockError(
        f"The folder {folder} cannot be written ({os_reason(problem)}).",
        "Fix its permissions, free some space, or use another folder: --folder DIR.",
    )


def _apart(folder: Path) -> tuple[str, str]:
    return (
        f"Checkpoint and tables in {folder} do not belong together (one of them was deleted, or is from a backup).",
        f"Restore both. {reset_hint(folder)}",
    )


def _write(path: Path, content: bytes) -> None:
    """Write the file as a whole and flush it to the disk."""
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with staging.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staging.rename(path)
    except OSError:
        staging.unlink(missing_ok=True)  # in an empty folder it would stand for something else than tables
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
