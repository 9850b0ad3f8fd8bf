"""Filters as values: one class for each dialect, and their form in the contract.

Every filter here is valid: resources are checked before (`knative/resources/trigger_filters`), so an invalid filter
never reaches a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knative.errors import SHOWN_CHARS

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """`filter.attributes`: each attribute has this value; "" = it is present and not empty."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Exact:
    """Each attribute has this value."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Prefix:
    """Each attribute begins with this text."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Suffix:
    """Each attribute ends with this text."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class All:
    """Every filter passes; without any, every event does."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """At least one filter passes; without any, no event does."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The filter does not pass."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Cesql:
    """The CloudEvents SQL expression is true, without an error."""

    expression: str


Filter = Attributes | Exact | Prefix | Suffix | All | Any_ | Not | Cesql

#: What a subscription without a filter has.
ALL_EVENTS = All(())

#: The dialects that have attributes with a text for each.
PAIRS: dict[str, type[Attributes | Exact | Prefix | Suffix]] = {
    "attributes": Attributes,
    "exact": Exact,
    "prefix": Prefix,
    "suffix": Suffix,
}
#: The dialects that have filters.
LISTS: dict[str, type[All | Any_]] = {"all": All, "any": Any_}
_NAMES: dict[type, str] = {class_: name for name, class_ in (*PAIRS.items(), *LISTS.items())} | {
    Not: "not",
    Cesql: "cesql",
}


def dialect(filter_: Filter) -> str:
    """Returns the name of the filter's dialect, as it stands in a resource."""
    return _NAMES[type(filter_)]


def to_json(filter_: Filter) -> dict[str, Any]:
    """Returns the filter as plain values, in the form in which people write it."""
    match filter_:
        case All() | Any_():
            return {dialect(filter_): [to_json(nested) for nested in filter_.filters]}
        case Not():
            return {"not": to_json(filter_.filter)}
        case Cesql():
            return {"cesql": filter_.expression}
        case _:
            return {dialect(filter_): dict(filter_.pairs)}


def from_json(value: Mapping[str, Any]) -> Filter:
    """Returns the inverse of `to_json`. Raises ValueError for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError("a filter must be an object")
    if len(value) != 1:
        raise ValueError(f"a filter must have one dialect, not {', '.join(sorted(value)) or 'none'}"[:SHOWN_CHARS])
    ((name, content),) = value.items()
    if name in PAIRS and isinstance(content, Mapping):
        return PAIRS[name](tuple((str(key), str(text)) for key, text in content.items()))
    if name in LISTS and isinstance(content, Sequence) and not isinstance(content, str):
        return LISTS[name](tuple(from_json(nested) for nested in content))
    if name == "not" and isinstance(content, Mapping):
        return Not(from_json(content))
    if name == "cesql" and isinstance(content, str):
        return Cesql(content)
    if name in _NAMES.values():
        raise ValueError(f"the content of the filter dialect {name} is not valid")
    raise ValueError(f"{name[:40]!r} is not a known filter dialect")
