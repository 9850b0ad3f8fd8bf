"""Census files: selects, downloads and checks them.

    --years 2019 --months jan,feb  ->  URL template  ->  download to a temporary file  -+
    --from-file FILE --years 2019  -----------------------------------------------------+-> whole? -> its digest

A file is unpacked once to its end before its first chunk is written. If it is truncated or damaged it is reported, and
nothing of it is counted, so that it can be repaired and read again.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import shutil
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analytics.census.generator import MONTHS
from analytics.census.model import YEARS
from knative.errors import UsageError

_BLOCK = 1 << 16
_ANSWER_LIMIT_S = 30.0
_TRIES = 3
_WAIT_S = 1.0
DOWNLOAD_BYTES_MAX = 2 << 30
DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its URL or path, and its name."""

    year: int
    name: str
    url: str = ""
    path: Path | None = None

    @property
    def where(self) -> str:
        """URL or path, for messages."""
        return self.url or str(self.path)


class UnusableError(Exception):
    """This file cannot be counted; the message says why."""


def parse_years(text: str) -> list[int]:
    """`2018,2019` -> years. Raises UsageError."""
    years = []
    for part in (part.strip() for part in text.split(",")):
        if not (part.isascii() and part.isdigit() and int(part) in YEARS):
            raise UsageError(f"{part!r} is not a valid year.", f"Write --years 2018,2019 ({YEARS[0]} to {YEARS[-1]}).")
        years.append(int(part))
    return list(dict.fromkeys(years))


def parse_months(text: str) -> list[str]:
    """`jan,feb` or `*` -> months. Raises UsageError."""
    if text.strip() == "*":
        return list(MONTHS)
    months = [part.strip().lower() for part in text.split(",")]
    for month in months:
        if month not in MONTHS:
            raise UsageError(
                f"{month!r} is not a valid month.", f"Write --months jan,feb ({', '.join(MONTHS)}), or '*'."
            )
    return list(dict.fromkeys(months))


def plan(years: Sequence[int], months: Sequence[str], files: Sequence[Path], template: str) -> list[Source]:
    """The files that the options select. Raises UsageError."""
    if files:
        if len(years) != 1:
            raise UsageError("--from-file needs exactly one year.", "Add it: --years 2019.")
        return [Source(years[0], path.name, path=path) for path in files]
    if not (years and months):
        raise UsageError("Give --years and --months to download files.", "Or name local files: --from-file.")
    return [_remote(year, month, template) for year in years for month in months]


def _remote(year: int, month: str, template: str) -> Source:
    url = template.format(year=year, month=month, yy=f"{year % 100:02d}")
    return Source(year, url.rpartition("/")[2], url=url)


@contextmanager
def at_hand(source: Source, fetched: Callable[[], None]) -> Iterator[Path]:
    """A path of the file; calls `fetched` when it was downloaded. Raises UnusableError."""
    if source.path is not None:
        if not source.path.is_file():
            raise UnusableError("there is no such file")
        yield source.path
        return
    with tempfile.TemporaryDirectory(prefix="penstock-census-") as folder:
        target = Path(folder) / "download.gz"
        _download(source.url, target)
        fetched()
        yield target


def _download(url: str, target: Path) -> None:
    for left in reversed(range(_TRIES)):
        try:
            _download_once(url, target)
            return
        except urllib.error.HTTPError as problem:
            with problem:
                if problem.code < 500 or not left:
                    raise UnusableError(f"the server answered {problem.code} {problem.reason}") from problem
        except (OSError, http.client.HTTPException) as problem:
            if not left:
                why = getattr(problem, "reason", None) or problem
                raise UnusableError(f"it could not be downloaded ({why})") from problem
        time.sleep(_WAIT_S)


def _download_once(url: str, target: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "penstock-census"})
    with urllib.request.urlopen(request, timeout=_ANSWER_LIMIT_S) as answer, target.open("wb") as file:
        expected = answer.headers.get("content-length")
        if expected is not None and int(expected) > DOWNLOAD_BYTES_MAX:
            raise UnusableError(f"it has {expected} bytes, more than the limit of {DOWNLOAD_BYTES_MAX}")
        shutil.copyfileobj(_Limited(answer), file, _BLOCK)
    if expected is not None and target.stat().st_size != int(expected):
        raise OSError(f"{target.stat().st_size} of {expected} bytes arrived")


class _Limited:
    """Reads up to the limit of a download, also when the server does not send a length."""

    def __init__(self, stream: http.client.HTTPResponse) -> None:
        self._stream, self._left = stream, DOWNLOAD_BYTES_MAX

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise UnusableError(f"it has more bytes than the limit of {DOWNLOAD_BYTES_MAX}")
        return block


def digest(path: Path) -> str:
    """The digest of the unpacked content. Raises UnusableError if the file is not a complete gzip file."""
    seen = hashlib.blake2b(digest_size=16)
    unpacked = 0
    try:
        if not path.stat().st_size:
            raise UnusableError("it is empty, without even a gzip header")
        with gzip.open(path) as stream:
            while block := stream.read(_BLOCK):
                seen.update(block)
                unpacked += len(block)
    except DAMAGES as problem:
        raise UnusableError(damage(problem, unpacked)) from problem
    except OSError as problem:
        raise UnusableError(f"it cannot be read ({problem.strerror or problem})") from problem
    return seen.hexdigest()


def damage(problem: Exception, unpacked: int) -> str:
    """The damage as text for people."""
    if isinstance(problem, EOFError):
        return f"it is truncated: it ends after some {unpacked} unpacked bytes"
    if "Not a gzipped file" in str(problem) and not unpacked:
        return "it is not a gzip file"
    return f"it is damaged, some {unpacked} unpacked bytes from its beginning ({problem})"
