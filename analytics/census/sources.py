"""Which census files the options mean, and what a damaged one is reported as. Pure.

--years 2019 --months jan,feb  ->  URL template  -+
--from-file FILE --years 2019  -------------------+-> sources
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analytics.census.generator import MONTHS
from analytics.census.model import YEARS
from knative.errors import UsageError

#: What reading a damaged file raises.
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


def damage(problem: Exception, unpacked: int) -> str:
    """The damage as text for people."""
    if isinstance(problem, EOFError):
        return f"it is truncated: it ends after some {unpacked} unpacked bytes"
    if "Not a gzipped file" in str(problem) and not unpacked:
        return "it is not a gzip file"
    return f"it is damaged, some {unpacked} unpacked bytes from its beginning ({problem})"
