"""Reads one mapping of a resource, field by field, and collects all problems with their paths instead of raising.

A person who fixes a file wants to see all its mistakes at once, each with its field and a hint. Values are never
converted: a number is not text, and `"3"` is not a number.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knative.delivery.policy import is_positive, parse_duration_s
from knative.urls import quoted, shown_key

Path = tuple[str | int, ...]

INTEGER_MAX = 2**31 - 1
TEXT_CHARS_MAX = 262_144


def field_text(path: Path) -> str:
    """Returns a path as people write it: `spec.subscribers[0].uid`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" for step in path)
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem: where it is, what it is, and a hint what to do."""

    path: Path
    what: str
    hint: str

    @property
    def field(self) -> str:
        """See `field_text`."""
        return field_text(self.path)

    def __str__(self) -> str:
        return f"{self.field or 'the object'}: {self.what}; {self.hint}"


class ObjectReader:
    """Reads one mapping. Each accessor takes a field; `finish` reports the fields that were not taken."""

    def __init__(
        self, value: Mapping[str, object], path: Path, problems: list[FieldProblem], taken: set[str] | None = None
    ) -> None:
        """`taken`: shared with another reader of the same mapping; None = nothing is taken yet."""
        self._value = value
        self._taken: set[str] = set() if taken is None else taken
        self.path = path
        self.problems = problems

    def problem(self, key: str, what: str, hint: str) -> None:
        """Report that field `key` ("" = the mapping itself) is wrong."""
        self.problems.append(FieldProblem((*self.path, key) if key else self.path, what, hint))

    def unreported(self) -> ObjectReader:
        """Reads the same mapping; fields that are wrong have their default, and are not reported. What it has taken
        counts as taken here."""
        return ObjectReader(self._value, self.path, [], self._taken)

    def read(self, key: str) -> object:
        """Returns the value as it is; None if absent or null."""
        self._taken.add(key)
        return self._value.get(key)

    def text(self, key: str, default: str = "", *, required: bool = False) -> str:
        """Returns a text; empty counts as absent."""
        value = self.read(key)
        if value is None or value == "":
            if required:
                self.problem(key, "is missing", f"add `{key}:` with a text")
            return default
        if not isinstance(value, str):
            self.problem(
                key,
                f"is {_kind_of(value)}, not text",
                'write a text; put it in quotes ("...") if it looks like a number or boolean',
            )
            return default
        if len(value) > TEXT_CHARS_MAX:
            self.problem(key, f"has {len(value)} characters", f"write at most {TEXT_CHARS_MAX}")
            return default
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Reads one of `choices`."""
        value = self.text(key, default)
        if value not in choices:
            self.problem(key, f"{quoted(value)} is not a valid value", f"write {' or '.join(filter(None, choices))}")
            return default
        return value

    def integer(self, key: str, default: int, least: int) -> int:
        """Returns a whole number of at least `least`."""
        value = self.read(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, f"is {_kind_of(value)}, not a whole number", f"write a number of at least {least}")
            return default
        if not least <= value <= INTEGER_MAX:
            self.problem(key, f"is {value}", f"write a number from {least} to {INTEGER_MAX}")
            return default
        return value

    def duration_s(self, key: str, default: str = "", *, positive: bool = False) -> float | None:
        """Returns an ISO-8601 duration in seconds; None if it is absent and there is no default."""
        text = self.text(key, default)
        if not text:
            return None
        try:
            value_s = parse_duration_s(text)
        except ValueError as error:
            self.problem(key, str(error).partition(";")[0], "write it like PT0.2S, PT30S, PT10M or P7D")
        else:
            if not positive or is_positive(text):
                return value_s
            self.problem(key, f"{text!r} is too short", "write a duration of at least PT0.001S")
        return parse_duration_s(default) if default else None

    def texts(self, key: str) -> dict[str, str]:
        """Returns a mapping of names to texts, which may be empty; {} if absent."""
        value = self.read(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problem(key, f"is {_kind_of(value)}, not a mapping", f"write `name: text` lines under `{key}:`")
            return {}
        reader = ObjectReader(value, (*self.path, key), self.problems)
        return {str(name): reader.text(str(name)) for name in value}

    def mapping(self, key: str, *, required: bool = False) -> ObjectReader | None:
        """Returns a nested mapping; None if absent."""
        value = self.read(key)
        if value is None:
            if required:
                self.problem(key, "is missing", f"add `{key}:` with its fields")
            return None
        if not isinstance(value, Mapping):
            self.problem(key, f"is {_kind_of(value)}, not a mapping", f"write its fields indented under `{key}:`")
            return None
        return ObjectReader(value, (*self.path, key), self.problems)

    def mappings(self, key: str) -> list[ObjectReader]:
        """Returns a list of mappings; empty if absent."""
        value = self.read(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(key, f"is {_kind_of(value)}, not a list", "write its items with a leading `- `")
            return []
        readers = []
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                readers.append(ObjectReader(item, (*self.path, key, index), self.problems))
            else:
                path = (*self.path, key, index)
                self.problems.append(FieldProblem(path, f"is {_kind_of(item)}, not a mapping", "write its fields"))
        return readers

    def check_texts(self) -> None:
        """Report the values that are not texts, in a mapping that holds nothing else, once."""
        reported = {problem.path for problem in self.problems}
        for key, value in self._value.items():
            if value is not None and not isinstance(value, str) and (*self.path, key) not in reported:
                self.text(key)

    def finish(self, only: str = "") -> None:
        """Report the fields that were not taken: a misspelt field must not be ignored silently.

        `only` limits this to fields with this prefix, because annotations of other tools are not our concern.
        """
        for key in self._value:
            if key not in self._taken and key.startswith(only):
                names = sorted(name for name in self._taken if name.startswith(only))
                close = difflib.get_close_matches(key, names, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"known fields: {', '.join(names)}"
                self.problem(key, "is not a known field", hint)


def _kind_of(value: object) -> str:
    """Returns what a value is, in YAML's words."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {quoted(value, 40)}"
    return {"list": "a list", "dict": "a mapping"}.get(type(value).__name__, type(value).__name__)
