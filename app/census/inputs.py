"""Downloads census files and checks them.

    URL  ->  download to a temporary file  -+
    file  ----------------------------------+-> whole? -> its digest

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analytics.census.sources import DAMAGES, Source, damage
from app.timing import HTTP_S, LOOK_S

DOWNLOAD_BYTES_MAX = 2 << 30


class UnusableError(Exception):
    """This file cannot be counted; the message says why."""


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
    for left in reversed(range(3)):
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
        time.sleep(LOOK_S)


def _download_once(url: str, target: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "penstock-census"})
    with urllib.request.urlopen(request, timeout=HTTP_S) as answer, target.open("wb") as file:
        expected = answer.headers.get("content-length")
        if expected is not None and int(expected) > DOWNLOAD_BYTES_MAX:
            raise UnusableError(f"it has {expected} bytes, more than the limit of {DOWNLOAD_BYTES_MAX}")
        shutil.copyfileobj(_Limited(answer), file)
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
            while block := stream.read(65_536):
                seen.update(block)
                unpacked += len(block)
    except DAMAGES as problem:
        raise UnusableError(damage(problem, unpacked)) from problem
    except OSError as problem:
        raise UnusableError(f"it cannot be read ({problem.strerror or problem})") from problem
    return seen.hexdigest()
