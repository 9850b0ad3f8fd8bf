"""What one evaluation may look at and make, so that no filter holds up the events of others.

An operation that walks through a text, or makes one, has a *weight*: how often it handles each character. The weights
of an expression are known when it is compiled, so a text that is short enough for all of them needs no counting at all.
Only an evaluation that meets a longer one is repeated, with `Metered` attributes that count.
"""

from __future__ import annotations

from collections.abc import Mapping

from knative.cesql.values import ErrorKind, EvaluationError, Value

#: Characters of a text that an operation walks through or makes. CloudEvents asks everyone to forward events of 64 KiB,
#: so no attribute of such an event is longer.
TEXT_MAX = 65_536
#: Characters that all operations of one evaluation handle together: a few milliseconds.
BUDGET = 1_048_576


class LimitExceeded(Exception):
    """The evaluation needs more than it may have. Not a `Fault`: it ends the whole filter, not only one expression."""

    kind = ErrorKind.GENERIC  #: no other error has it

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.error = EvaluationError(self.kind, message)


class Metered(dict[str, Value]):
    """The attributes of one evaluation that counts what it handles."""

    __slots__ = ("left",)

    def __init__(self, attributes: Mapping[str, Value]) -> None:
        super().__init__(attributes)
        self.left = BUDGET

    def spend(self, characters: int) -> None:
        """Raises LimitExceeded if fewer characters are left."""
        self.left -= characters
        if self.left < 0:
            raise LimitExceeded(f"the filter would have to handle more than {BUDGET:,} characters for this event")


def too_long(what: str, characters: int) -> LimitExceeded:
    """Returns the error that says that `what` would walk through, or make, a text of this many characters."""
    return LimitExceeded(f"{what}: a text has {characters:,} characters, more than {TEXT_MAX:,}")


def longest(weight: int) -> int:
    """Returns how long a text may be so that operations of this weight together stay within the budget."""
    return min(TEXT_MAX, BUDGET // max(weight, 1))
