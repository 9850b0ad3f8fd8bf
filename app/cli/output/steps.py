"""The steps of a start: on a terminal a spinner with what is being waited for, and a ticked line for each one done."""

from __future__ import annotations

import sys
import textwrap
import time
from types import TracebackType
from typing import Self

from app.cli.output.format import note, writes
from app.timing import SAY_S


class Steps:
    """Use with `with`. On standard error."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._tick = "✓" if writes("✓", sys.stderr) else "+"
        self._status = self._console.status("") if self._console.is_terminal else None
        self._name = ""
        self._said = ""
        self._say_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rest()

    def begin(self, name: str, doing: str) -> None:
        """Show that a step begins, which may take seconds."""
        self._name, self._said, self._say_at = name, doing, time.monotonic() + SAY_S
        if self._status is not None:
            self._status.update(doing)
            self._status.start()

    def wait(self, why: str) -> None:
        """Show what the step waits for."""
        if self._status is not None:
            self._status.update(f"{self._name}: {why}")
        elif why != self._said and time.monotonic() >= self._say_at:
            note(f"{self._name}: {why} ...")
            self._said, self._say_at = why, time.monotonic() + SAY_S

    @property
    def spins(self) -> bool:
        """Whether there is a terminal."""
        return self._status is not None

    def tell(self, sentence: str) -> None:
        """Show what the step does: beside the spinner, or as a line where there is no terminal."""
        if self._status is None:
            note(sentence)
        else:
            self._status.update(sentence)
            self._status.start()

    def done(self, name: str, result: str) -> None:
        """Show the result of a step."""
        self._rest()
        if self._status is None:
            note(f"{self._tick} {name:11} {result}")
        else:
            begin = f"{self._tick} {name:11} "
            self._console.print(f"[green]{self._tick}[/] [bold]{name:11}[/] ", end="")
            # Between words only: what is in a line can be copied, such as a URL.
            room = max(1, self._console.width - len(begin))
            lines = textwrap.wrap(result, room, break_long_words=False, break_on_hyphens=False)
            self._console.print(("\n" + " " * len(begin)).join(lines), markup=False, soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Say something that a person should know, in between."""
        self._console.print(sentence, markup=False, soft_wrap=True)

    def _rest(self) -> None:
        if self._status is not None:
            self._status.stop()
