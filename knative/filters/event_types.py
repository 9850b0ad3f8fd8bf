"""What a filter says about all events of one type, whatever their other attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from knative.filters.dialects import All, Any_, Attributes, Exact, Filter, Not, Prefix, Suffix

_FITS: dict[type, Callable[[str, str], bool]] = {
    Attributes: lambda type_, text: text in ("", type_),
    Exact: str.__eq__,
    Prefix: str.startswith,
    Suffix: str.endswith,
}


def passes(filter_: Filter, type_: str) -> bool | None:
    """Returns whether every event of this type passes. None: other attributes decide, or an expression."""
    match filter_:
        case All():
            return _all(passes(inner, type_) for inner in filter_.filters)
        case Any_():
            return _not(_all(_not(passes(inner, type_)) for inner in filter_.filters))
        case Not():
            return _not(passes(filter_.filter, type_))
        case Attributes() | Exact() | Prefix() | Suffix():
            fits = _FITS[type(filter_)]
            return _all(fits(type_, text) if name == "type" else None for name, text in filter_.pairs)
        case _:
            return None


def _all(answers: Iterable[bool | None]) -> bool | None:
    answers = list(answers)
    return False if False in answers else None if None in answers else True


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer
