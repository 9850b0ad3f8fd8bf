"""Limits of the console: how much a page shows, how often it changes, how many may look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Rows above these are left out, and the page says so."""

    every_s: float = 2.0  #: a page that is open shows a state that is at most this old; workers report as often
    rows_max: int = 100  #: of a table, and names that a form offers
    picks_max: int = 5  #: events that a form offers
    read_max: int = 20_000  #: records that one look reads, of all topics together
    tails_max: int = 50  #: topics and filters that are followed at the same time
    data_bytes_max: int = 65_536  #: of an event that a page shows
    hex_bytes_max: int = 4_096  #: the same in hex
    indents_max: int = 40  #: levels of JSON; more would make a page of spaces
    tabs_max: int = 100  #: that are open at the same time; further ones are not live
    form_bytes_max: int = 2 * 1_048_576  #: encoded for a form: 1 MiB of English text; a Cyrillic letter takes six bytes
    sessions_max: int = 1_000
    session_s: float = 12 * 3600.0  #: a working day
    map_share: float = 0.02  #: of a core, while a map is looked at: one of 2,700 vertices takes 340 ms, so each 17 s

    @property
    def rest_s(self) -> float:
        """Seconds without a look after which a value is forgotten."""
        return 10 * self.every_s
