"""Requests about many groups go to a broker some at a time; the others wait for their turn."""

from __future__ import annotations

from tables.timing import LATER_S

#: Requests on their way to a broker at a time. It answers one after the other: of ten thousand groups at once, the last
#: ones waited until their time limits, which closed the connection of all.
AT_A_TIME = 256


def turns_s(groups: int) -> float:
    """Returns how long this number of groups wait for each other, in addition to the time of one. A turn takes 0.2 s,
    and 0.6 s on a busy machine. Those that have failed all end at the same time, which takes as long again."""
    return 2 * LATER_S * (groups // AT_A_TIME)
