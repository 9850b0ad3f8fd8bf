"""Census files: which ones the flags mean, and how one is fetched and checked.

A file is unpacked once to its end before its first chunk is written. If it is truncated or damaged it is reported, and
nothing of it is counted, so that it can be repaired and read again.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

from app.timing import HTTP_S
from examples.census.model import YEARS
from examples.census.samples import MONTHS
from knative.errors import UsageError

#: {year} 2019, {yy} 19, {month} jan.
URL = "https://www2.census.gov/programs-surveys/cps/datasets/{year}/basic/{month}{yy}pub.dat.gz"
Source = tuple[int, str]  #: year and URL of a file


class UnusableError(Exception):
    """This file cannot be counted; the message says why."""


def chosen(flag: str, text: str) -> list[str]:
    """Returns the values of --years or --months. Raises UsageError."""
    allowed, example = (
        (tuple(map(str, YEARS)), "2018,2019") if flag == "--years" else (MONTHS, "jan,feb (or '*' for all)")
    )
    values = list(MONTHS) if (flag, text) == ("--months", "*") else [part.strip().lower() for part in text.split(",")]
    for value in values:
        if value not in allowed:
            raise UsageError(f"{flag} has {value!r}, which is not valid.", f"Write {flag} {example}.")
    return list(dict.fromkeys(values))


def plan(years: str, months: str, from_file: Sequence[str], template: str) -> list[Source]:
    """Returns the files that the flags select. Raises UsageError."""
    if from_file:
        if len(chosen("--years", years)) != 1:
            raise UsageError("--from-file needs exactly one year.", "Add it: --years 2019.")
        return [(int(years), Path(name).absolute().as_uri()) for name in dict.fromkeys(from_file)]
    if not (years and months):
        raise UsageError("Give --years and --months to download files.", "Or name local files: --from-file.")
    try:
        return [
            (year, template.format(year=year, month=month, yy=f"{year % 100:02d}"))
            for year in map(int, chosen("--years", years))
            for month in chosen("--months", months)
        ]
    except (KeyError, IndexError, ValueError) as problem:
        raise UsageError("--url is not a valid template.", "It may hold {year}, {yy} and {month}.") from problem


def fetch(year: int, url: str, target: Path) -> str:
    """Copy the file to `target`, and return its identity. Raises UnusableError if it is not a complete gzip file."""
    try:
        with urllib.request.urlopen(url, timeout=HTTP_S) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
            expected = answer.headers.get("content-length")
    except urllib.error.HTTPError as problem:
        with problem:
            raise UnusableError(f"the server answered {problem.code} {problem.reason}") from problem
    except (OSError, ValueError, http.client.HTTPException) as problem:
        why = getattr(problem, "reason", None) or problem
        raise UnusableError(f"it could not be read ({getattr(why, 'strerror', None) or why})") from problem
    if expected is not None and target.stat().st_size != int(expected):
        raise UnusableError(f"{target.stat().st_size} of {expected} bytes arrived")
    if not target.stat().st_size:
        raise UnusableError("it is empty, without even a gzip header")
    content, unpacked = hashlib.blake2b(digest_size=8), 0
    try:
        with gzip.open(target) as stream:
            while block := stream.read(65_536):
                content.update(block)
                unpacked += len(block)
    except EOFError as problem:
        raise UnusableError(f"it is truncated: it ends after some {unpacked} unpacked bytes") from problem
    except (gzip.BadGzipFile, zlib.error) as problem:
        raise UnusableError(f"it is damaged, or not a gzip file ({problem})") from problem
    return f"{year}/{url.rpartition('/')[2][-255:]}/{content.hexdigest()}"
