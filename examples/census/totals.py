"""Totals of results, each of which is added once, and the two pages that show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from examples.census.model import CODES, PROBLEMS, parse_place


@dataclass(slots=True)
class Totals:
    """What was added so far."""

    results: Counter[tuple[int, str]] = field(default_factory=Counter)  #: (year, value of a result) -> how many
    chunks: Counter[str] = field(default_factory=Counter)  #: of each file
    chunks_in_all: dict[str, int] = field(default_factory=dict)  #: of each file, once its last chunk was added

    def add(self, place: str, words: str) -> None:
        """Add the result of a place that was not added yet."""
        file, number, is_last = parse_place(place)
        self.results[int(file[:4]), words] += 1
        self.chunks[file] += 1
        if is_last:
            self.chunks_in_all[file] = number + 1

    @property
    def complete(self) -> bool:
        """Whether all chunks of every file that was begun were added."""
        return bool(self.chunks) and dict(self.chunks) == self.chunks_in_all

    def words(self) -> dict[int, Counter[str]]:
        """Returns year -> word -> lines."""
        years: dict[int, Counter[str]] = {}
        for (year, words), times in sorted(self.results.items()):
            counter = years.setdefault(year, Counter())
            for word in words.split(","):
                counter[word] += times
        return years


def by_code(totals: Totals) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the page /results: year -> code -> description and count, with every code."""
    return {
        str(year): {code: {"Description": text, "Count": counter[code]} for code, text in CODES.items()}
        for year, counter in totals.words().items()
    }


def tally(years: Mapping[int, Counter[str]]) -> dict[str, Any]:
    """Returns year -> word -> lines as the parts of the page that a plain count of the same files must equal."""
    return {
        "years": {str(year): {code: counter[code] for code in CODES} for year, counter in sorted(years.items())},
        "problems": {word: sum(counter[word] for counter in years.values()) for word in PROBLEMS},
        "lines": sum(counter.total() for counter in years.values()),
    }


def in_full(totals: Totals, records: int, behind: int) -> dict[str, Any]:
    """Returns the page /results?wide. `records`: of the topic that were read; `behind`: that are still to be read."""
    return {
        **tally(totals.words()),
        "complete": totals.complete and not behind,
        "behind": behind,
        "chunks": totals.chunks.total(),
        "records": records,
        "files": {
            file: {"chunks": chunks, "chunks_in_all": totals.chunks_in_all.get(file)}
            for file, chunks in sorted(totals.chunks.items())
        },
    }
