"""Census files: which ones are meant, how they come here, and whether they are whole.

    --years 2019 --months jan,feb  ->  URL template  ->  download to a temporary file  -+
    --from-file FILE --years 2019  -----------------------------------------------------+-> whole? -> its digest

A file is unpacked to its end once before its first chunk is written: one that is cut or damaged is reported and nothing
of it is counted, so that it can be mended and read again. Refuses to look at lines.
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
    """One file: where it is (a URL, or a path), and the name it is known by."""

    year: int
    name: str
    url: str = ""
    path: Path | None = None

    @property
    def where(self) -> str:
        """For people."""
        return self.url or str(self.path)


class UnusableError(Exception):
    """This file cannot be counted; the message says why."""


def parse_years(text: str) -> list[int]:
    """`2018,2019` -> years. Raises UsageError."""
    years = []
    for part in (part.strip() for part in text.split(",")):
        if not (part.isascii() and part.isdigit() and int(part) in YEARS):
            raise UsageError(f"{part!r} is no year.", f"Write --years 2018,2019 ({YEARS[0]} to {YEARS[-1]}).")
        years.append(int(part))
    return list(dict.fromkeys(years))


def parse_months(text: str) -> list[str]:
    """`jan,feb` or `*` -> months. Raises UsageError."""
    if text.strip() == "*":
        return list(MONTHS)
    months = [part.strip().lower() for part in text.split(",")]
    for month in months:
        if month not in MONTHS:
            raise UsageError(f"{month!r} is no month.", f"Write --months jan,feb ({', '.join(MONTHS)}), or '*'.")
    return list(dict.fromkeys(months))


def plan(years: Sequence[int], months: Sequence[str], files: Sequence[Path], template: str) -> list[Source]:
    """Which files are meant. Raises UsageError."""
    if files:
        if len(years) != 1:
            raise UsageError("--from-file needs one year.", "Say which: --years 2019.")
        return [Source(years[0], path.name, path=path) for path in files]
    if not (years and months):
        raise UsageError("--years and --months say what to fetch.", "Or name files that are here: --from-file.")
    return [_remote(year, month, template) for year in years for month in months]


def _remote(year: int, month: str, template: str) -> Source:
    url = template.format(year=year, month=month, yy=f"{year % 100:02d}")
    return Source(year, url.rpartition("/")[2], url=url)


@contextmanager
def at_hand(source: Source, fetched: Callable[[], None]) -> Iterator[Path]:
    """A path of the file; `fetched` is told when it was downloaded. Raises UnusableError."""
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
            raise UnusableError(f"it has {expected} bytes, and {DOWNLOAD_BYTES_MAX} are the most that is fetched")
        shutil.copyfileobj(_Limited(answer), file, _BLOCK)
    if expected is not None and target.stat().st_size != int(expected):
        raise OSError(f"{target.stat().st_size} of {expected} bytes came")


class _Limited:
    """Reads no more than is fetched at most."""

    def __init__(self, stream: http.client.HTTPResponse) -> None:
        self._stream, self._left = stream, DOWNLOAD_BYTES_MAX

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise UnusableError(f"it has more than {DOWNLOAD_BYTES_MAX} bytes, the most that is fetched")
        return block


def digest(path: Path) -> str:
    """Of the unpacked content, read to its end. Raises UnusableError for what is no whole gzip file."""
    seen = hashlib.blake2b(digest_size=16)
    unpacked = 0
    try:
        if not path.stat().st_size:
            raise UnusableError("it is empty, not even a gzip header is there")
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
    """A sentence for people."""
    if isinstance(problem, EOFError):
        return f"it is cut: it ends in the middle, some {unpacked} unpacked bytes from its beginning"
    if "Not a gzipped file" in str(problem) and not unpacked:
        return "it is no gzip file"
    return f"it is damaged, some {unpacked} unpacked bytes from its beginning ({problem})"
