"""The result of a redrive: counts, reasons of failures, and the exit code of the command. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from knative.contract.records import kind_and_name
from knative.errors import ExitCode


@dataclass(slots=True)
class Summary:
    """Counts of letters; `complete`: all selected letters were read."""

    selected: int = 0  #: read
    redriven: int = 0  #: by this run
    already: int = 0  #: by an earlier one
    failed: int = 0
    complete: bool = False
    stopped: str = ""  #: why the run stopped early, other than a limit; "" = it did not
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)  #: (subscription, reason) of failures

    @property
    def exit_code(self) -> ExitCode:
        """0: all letters were redriven; 4: a part of them; 1: none."""
        if not self.failed and (self.complete or not self.stopped):
            return ExitCode.DONE
        return ExitCode.PARTLY if self.redriven else ExitCode.FAILED

    def fail(self, subscription: str, reason: str) -> None:
        """Count one letter that its subscriber did not accept."""
        self.failed += 1
        self.reasons[subscription, reason] += 1

    def as_json(self) -> dict[str, object]:
        """Returns the summary as plain values, for programs."""
        return {
            "selected": self.selected,
            "redriven": self.redriven,
            "already": self.already,
            "failed": self.failed,
            "complete": self.complete,
            "stopped": self.stopped,
            "failures": [
                {"subscription": kind_and_name(subscription, "")[1], "reason": reason, "count": count}
                for (subscription, reason), count in self.reasons.most_common()
            ],
        }

    def as_lines(self) -> list[str]:
        """Returns the summary as lines of text, for people."""
        if self.complete and not self.selected:
            return ["No dead letters match; see `penstock dlq list`."]
        first = f"Redriven {self.redriven}, failed {self.failed}, redriven before {self.already}."
        if not self.complete and not self.stopped:
            first += " The limit is reached; run the command again for the next letters."
        lines = [first]
        for (subscription, reason), count in self.reasons.most_common():
            lines.append(f"  {count} x {kind_and_name(subscription, '')[1] or '(no subscription)'}: {reason}")
        if self.stopped and not self.complete:
            lines.append(
                f"The run ended early: {self.stopped}. Run the command again to continue; redriven letters are not "
                "repeated."
            )
        return lines
