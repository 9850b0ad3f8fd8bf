"""Limits of the console: how much a page shows, how often it changes, how many may look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Rows above these are left out, and the page says so."""

    every_s: float = 2.0  #: a page that is open shows a state that is at most this old; workers report as often
    rows_max: int = 100  #: of a table
    tabs_max: int = 100  #: that are open at the same time; further ones are not live
    form_bytes_max: int = 2 * 1_048_576  #: an event of the largest default size, encoded for a form
    sessions_max: int = 1_000
    session_s: float = 12 * 3600.0  #: a working day
