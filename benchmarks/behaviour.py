"""How a simulated subscriber answers: delays, failures by count, at random (seeded) or always, and silence.

Only decides; `sink` waits and answers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from itertools import count

HANG = 0  #: the status of no answer at all


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One path of the sink. `fail_chance` 0..1 fails single requests; `fail_every` n fails the first attempt at every
    n-th event for ever; `hang_every` leaves every n-th request unanswered; a failure answers `fail_status`."""

    delay_s: float = 0.0
    fail_chance: float = 0.0
    fail_every: int = 0
    hang_every: int = 0
    fail_status: int = 500
    seed: int = 1

    @classmethod
    def parse(cls, text: str) -> Behaviour:
        """Reads `delay_s=0.01,fail_chance=0.1`; "" = answers at once. Raises ValueError on an unknown name or value."""
        types = {field.name: field.type for field in fields(cls)}
        given: dict[str, float | int] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in types:
                raise ValueError(f"behaviour {name!r} is not one of {', '.join(types)}")
            given[name] = int(value) if types[name] == "int" else float(value)
        return cls(**given)  # type: ignore[arg-type]  # names and types were taken from the fields just above


class Answers:
    """The answers of one path, in the order in which requests come."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._chance = random.Random(behaviour.seed)
        self._requests, self._events = count(1), count(1)
        self._refused: set[str] = set()

    def next(self, event_id: str, attempt: int) -> int:
        """Returns the status for this request, `attempt` from 1; HANG = leave it unanswered."""
        behaviour = self.behaviour
        if behaviour.hang_every and next(self._requests) % behaviour.hang_every == 0:
            return HANG
        if behaviour.fail_every:
            if attempt == 1 and next(self._events) % behaviour.fail_every == 0:
                self._refused.add(event_id)
            if event_id in self._refused:
                return behaviour.fail_status
        if behaviour.fail_chance and self._chance.random() < behaviour.fail_chance:
            return behaviour.fail_status
        return 200
