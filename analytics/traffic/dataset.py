"""The traffic tables: a Parquet dataset on any file system, and the commits that say which of its files count.

    windows/resolution=60/day=2026-11-26/run=12-5d0c/part-0.parquet   the minutes of a day, of run 12
    commits/0000000012.json                                           the files of each day, and the position in Kafka

    a day's files of commit 11 + new sums --Spark--> run=12-... --> its sums are checked --> commits/12 --> old files go
              `--- killed anywhere here: run 12 is done again from commit 11, and what it left behind does not count

Whoever reads takes the files of the newest commit: they are all of a run or none of it. A day is in minutes, then in
hours, then in days, as it gets older. Raises PenstockError with a hint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from analytics.traffic.windows import DAY_S, HOUR_S, MINUTE_S
from knative.errors import SHOWN_CHARS, PenstockError, UsageError, os_reason

FORMAT = 2
OLD_TABLES = "tables.json"  #: of format 1
OLD_QUERIES = ("records", "deltas")  #: its folders
WINDOWS = "windows"
COMMITS = "commits"
_LOCK = ".lock"
KEEP_MINUTES_S = 3 * DAY_S  #: days older than this are in hours
KEEP_HOURS_S = 60 * DAY_S  #: and days older than this in one window each
UNFINISHED_S = DAY_S  #: no run takes this long: an older file that no commit names was left behind by a kill
KEEP_S = 400 * DAY_S  #: and days older than this are dropped: a year and a month can be compared

Folder = Path | str  #: a folder here, or a URI (s3a://bucket/traffic?region=eu-central-1: Arrow takes the query)


class BrokenTablesError(PenstockError):
    """The job cannot continue with the content of the folder."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What the tables consist of after a run, and where the next one begins."""

    instance: str
    cluster: str  #: Kafka's cluster id
    run: int = 0  #: 0: nothing is counted yet
    is_span: bool = False  #: the count of a time range, which no run continues
    days: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: 2026-11-26 -> files, relative to `windows`
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: topic -> partition -> next offset
    ids: Mapping[str, str] = field(default_factory=dict)  #: topic -> Kafka's id of it
    owners: Mapping[str, tuple[str, str]] = field(default_factory=dict)  #: topic -> namespace and name of a channel
    newest: Mapping[str, int] = field(default_factory=dict)  #: topic -> second of its newest record
    seen: Mapping[str, Any] = field(default_factory=dict)  #: `seen.Seen` as JSON

    def to_json(self) -> bytes:
        """Returns the content of its file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    def due(self, ages: Ages) -> list[str]:
        """Returns the days that have become too old for their windows, or for the tables."""
        return [
            day
            for day, names in self.days.items()
            if not ages.resolution(day)
            or any(int(name.removeprefix("resolution=").partition("/")[0]) < ages.resolution(day) for name in names)
        ]

    @classmethod
    def from_json(cls, content: bytes) -> Commit:
        """Reverses `to_json`. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
        row = json.loads(content)
        if row.pop("format") != FORMAT:
            raise ValueError("it was written by another version of Penstock")
        row["days"] = {day: tuple(files) for day, files in row["days"].items()}
        row["offsets"] = {t: {int(p): int(at) for p, at in places.items()} for t, places in row["offsets"].items()}
        row["owners"] = {topic: (namespace, name) for topic, (namespace, name) in row["owners"].items()}
        return cls(**row)


@dataclass(frozen=True, slots=True)
class Ages:
    """The oldest second of days in minutes, of days in hours, and of days that are kept."""

    minutes: int
    hours: int
    kept: int

    @classmethod
    def at(cls, now_s: float) -> Ages:
        """Returns the ages at a time, in whole days."""
        return cls(*(int(now_s - keep_s) // DAY_S * DAY_S for keep_s in (KEEP_MINUTES_S, KEEP_HOURS_S, KEEP_S)))

    def resolution(self, day: str) -> int:
        """Returns the length of the windows of this day (2026-11-26); 0 = it is dropped."""
        start = day_start(day)
        if start < self.kept:
            return 0
        return MINUTE_S if start >= self.minutes else HOUR_S if start >= self.hours else DAY_S


class Dataset:
    """The tables in one folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = str(folder)
        self.is_local = not re.match(r"(?!file:)[a-z][a-z0-9+.-]*://", self.folder)
        if self.is_local:
            path = Path(self.folder.removeprefix("file://")).absolute()
            self.fs, self.root, self.uri = pafs.LocalFileSystem(), str(path), path.as_uri()
        else:
            self.uri = self.folder.partition("?")[0].rstrip("/")  # for Spark, which has settings of its own
            self.fs, self.root = self._elsewhere()

    def _elsewhere(self) -> tuple[pafs.FileSystem, str]:
        uri = re.sub("^s3a:", "s3:", self.folder)
        if uri.startswith("s3:"):  # a commit is one request, instead of the parts of a large object
            uri += ("&" if "?" in uri else "?") + "allow_delayed_open=true"
        try:
            return pafs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
        except (OSError, ValueError) as problem:
            raise UsageError(
                f"{self.folder} is not a place for tables ({problem}).",
                "Name a folder, s3a://BUCKET/FOLDER or hdfs://HOST:PORT/FOLDER.",
            ) from problem

    def last(self) -> Commit | None:
        """Returns the newest commit; None = there is none. Raises BrokenTablesError if it is not valid."""
        names = sorted(path for path in self._list(COMMITS, pafs.FileType.File) if path.endswith(".json"))
        if not names:
            return None
        try:
            with self.fs.open_input_stream(names[-1]) as file:
                return Commit.from_json(file.read())
        except FileNotFoundError:  # a job has committed another one since
            return self.last()
        except OSError as problem:
            raise self.unreadable(problem) from problem
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise BrokenTablesError(f"{names[-1]} cannot be read ({problem}).", reset_hint(self.folder)) from problem

    def paths(self, commit: Commit, since_s: float | None = None, until_s: float | None = None) -> list[str]:
        """Returns the files of the days in [since, until), in their order, for `fs`."""
        days = [day for day in sorted(commit.days) if _overlaps(day, since_s, until_s)]
        return self.full(name for day in days for name in commit.days[day])

    def full(self, names: Iterable[str]) -> list[str]:
        """Returns the paths of files in `Commit.days`."""
        return [f"{self.root}/{WINDOWS}/{name}" for name in names]

    def uri_of(self, path: str) -> str:
        """Returns a path of `paths`, as Spark takes it."""
        return self.uri + path.removeprefix(self.root)

    def files_of(self, run: str) -> dict[str, tuple[str, ...]]:
        """Returns what an attempt of a run has written: `Commit.days`."""
        days: dict[str, tuple[str, ...]] = {}
        beginning = f"{self.root}/{WINDOWS}/"
        for path in sorted(self._list(WINDOWS, pafs.FileType.File, recursive=True)):
            name = path.removeprefix(beginning)
            match = re.fullmatch(rf"resolution=\d+/day=([0-9-]+)/run={run}/[^._/][^/]*\.parquet", name)
            if match is not None:
                days[match[1]] = (*days.get(match[1], ()), name)
        return days

    def write(self, commit: Commit) -> None:
        """Make this the newest commit, in one step."""
        path = f"{self.root}/{COMMITS}/{commit.run:010}.json"
        if any(other >= path and other.endswith(".json") for other in self._list(COMMITS)):
            raise PenstockError(
                f"Another job has written to {self.folder} while this job ran.", "Run only one job at a time."
            )
        staging = f"{self.root}/{COMMITS}/.{uuid.uuid4().hex}"
        self.fs.create_dir(f"{self.root}/{COMMITS}")
        with self.fs.open_output_stream(staging) as file:
            file.write(commit.to_json())
        if self.is_local:
            os.sync()  # files that Spark wrote must reach the disk before the commit that names them
        self.fs.move(staging, path)

    def tidy(self, commit: Commit) -> None:
        """Delete what the newest commit does not name: older commits and runs, and what a kill has left behind.

        Where no lock keeps other jobs out, one of them may be writing: what may still become a commit stays for a day.
        """
        entries = self._entries(WINDOWS, recursive=True)
        fresh = {entry.path for entry in [*entries, *self._entries(COMMITS)] if self._may_be_written(entry)}
        mine = f"{self.root}/{COMMITS}/{commit.run:010}.json"
        for path in self._list(COMMITS, pafs.FileType.File):
            if path < mine and (path.endswith(".json") or path not in fresh):
                self.fs.delete_file(path)
        used, gone = self.paths(commit), list[str]()
        left_behind = rf"/(?:\.spark-staging-[^/]*|_temporary{'|day=[^/]*' if self.is_local else ''})$"
        for path in sorted(entry.path for entry in entries if entry.type is pafs.FileType.Directory):
            run = re.search(r"/run=(\d+)[^/]*$", path)
            ours = run or re.search(left_behind, path)
            kept = used if run is not None and int(run[1]) < commit.run else [*used, *fresh]
            if ours and not path.startswith(tuple(gone)) and not any(name.startswith(f"{path}/") for name in kept):
                self.fs.delete_dir(path)
                gone.append(f"{path}/")

    def _may_be_written(self, entry: pafs.FileInfo) -> bool:
        fresh = (entry.mtime_ns or 0) / 1e9 > time.time() - UNFINISHED_S
        return fresh and not self.is_local and entry.type is pafs.FileType.File

    def check(self, instance: str, cluster: str, is_span: bool = False) -> Commit:
        """Returns the commit to continue with; a time range (`is_span`) continues with none.

        Raises BrokenTablesError when the folder holds something else or is not readable, UsageError when the tables
        belong to another Kafka or instance or to a time range, PenstockError when the folder is not writable.
        """
        try:
            if self.is_local:
                Path(self.root).mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self.root) as file:
                    file.write(bytes(4096))  # an empty file fits on a full disk
            last, others = self.last(), self._others()
        except OSError as problem:
            raise _not_writable(self.folder, problem) from problem
        if last is None:
            if others:
                raise BrokenTablesError(
                    f"{self.folder} has files that do not belong to traffic tables: {others[0]}.",
                    "Use an empty or a new folder: --folder DIR.",
                )
            return Commit(instance, cluster)
        if (last.instance, last.cluster) != (instance, cluster):
            raise UsageError(
                f"The tables in {self.folder} belong to another Kafka or another instance ({last.instance}).",
                "Use another folder: --folder DIR.",
            )
        if last.is_span or is_span:
            raise UsageError(
                f"{self.folder} already has the count of a time range, and no run adds to it."
                if last.is_span
                else f"{self.folder} has the tables of a job without --since.",
                "Use another folder: --folder DIR.",
            )
        return last

    def continues(self) -> bool:
        """Returns whether the tables may be of a job that continues where it ended. The former format does not say."""
        last = self.last()
        return f"{self.root}/{OLD_TABLES}" in self._list("") if last is None else not last.is_span

    def wipe(self) -> None:
        """Delete the tables, and not the folder. Raises UsageError for a folder with anything else."""
        try:
            others = self._others()
            if others:
                raise UsageError(
                    f"{self.folder} has files that do not belong to traffic tables: {others[0]}.",
                    "Nothing was deleted. Use another folder: --folder DIR.",
                )
            names = set(self._list(""))
            for name in (COMMITS, WINDOWS, *OLD_QUERIES):
                if f"{self.root}/{name}" in names:
                    self.fs.delete_dir(f"{self.root}/{name}")
            if f"{self.root}/{OLD_TABLES}" in names:
                self.fs.delete_file(f"{self.root}/{OLD_TABLES}")
        except OSError as problem:
            raise _not_writable(self.folder, problem) from problem

    def _others(self) -> list[str]:
        """Returns what is in the folder and is not of the tables."""
        names = {Path(path).name for path in self._list("")}
        former = "".join(f"|{name}" for name in (*OLD_QUERIES, OLD_TABLES)) if OLD_TABLES in names else ""
        ours = {
            "": rf"{COMMITS}|{WINDOWS}|{_LOCK}|lost\+found{former}",
            COMMITS: r"\d+\.json|\..*",
            WINDOWS: r"resolution=\d+|_SUCCESS|_temporary|\..*",
        }
        others = [path for name in ours for path in self._list(name) if not re.fullmatch(ours[name], Path(path).name)]
        return [path.removeprefix(f"{self.root}/") for path in sorted(others)]

    def _list(self, name: str, kind: pafs.FileType | None = None, recursive: bool = False) -> list[str]:
        return [entry.path for entry in self._entries(name, recursive) if kind is None or entry.type is kind]

    def _entries(self, name: str, recursive: bool = False) -> list[pafs.FileInfo]:
        folder = f"{self.root}/{name}" if name else self.root
        try:
            return list(self.fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=recursive)))
        except OSError as problem:
            raise self.unreadable(problem) from problem

    def unreadable(self, problem: OSError) -> PenstockError:
        """Returns the error for a store that does not answer or does not let this user read."""
        return PenstockError(
            f"The folder {self.folder} cannot be read ({os_reason(problem)[:SHOWN_CHARS]}).",
            "Check that its store answers, and that this user may read the folder.",
        )


def day_name(start: int) -> str:
    """Turns the Unix second of midnight into 2026-11-26."""
    return datetime.fromtimestamp(start, UTC).date().isoformat()


def day_start(day: str) -> int:
    """Reverses `day_name`."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


def _overlaps(day: str, since_s: float | None, until_s: float | None) -> bool:
    start = day_start(day)
    return (since_s is None or start + DAY_S > since_s) and (until_s is None or start < until_s)


def reset_hint(folder: Folder) -> str:
    """Returns the hint for tables that the job cannot continue with."""
    return f"Count again from the records that Kafka still has: penstock job traffic --folder {folder} --reset."


@contextlib.contextmanager
def hold(folder: Folder) -> Iterator[None]:
    """Lock the folder for one run: a second run would write the same files. Raises PenstockError.

    The lock file is in the folder, where another mount of it has it too. The kernel releases the lock when the process
    ends. Other file systems have no locks: there the second commit fails.
    """
    if not Dataset(folder).is_local:
        yield
        return
    lock = Path(Dataset(folder).root) / _LOCK
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(lock)
    except BlockingIOError:
        raise PenstockError(
            f"Another job is writing to {folder}.", "Wait for that job, stop it, or use another folder: --folder DIR."
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


def _not_writable(folder: Folder, problem: OSError) -> PenstockError:
    return PenstockError(
        f"The folder {folder} cannot be written ({os_reason(problem)}).",
        "Fix its permissions, free some space, or use another folder: --folder DIR.",
    )
