"""Compiles filters to functions of an event's attributes, and explains how a filter judges an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from knative import cesql
from knative.filters.attributes import canonical
from knative.filters.dialects import (
    ALL_EVENTS,
    All,
    Any_,
    Attributes,
    Cesql,
    Exact,
    Filter,
    Not,
    Pairs,
    Prefix,
    Suffix,
    dialect,
)

#: Whether an event with these attributes passes (`knative/filters/attributes` makes them). Never raises.
Matcher = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a filter and what it says of an event. `depth`: how far it is inside (0 = the whole filter)."""

    depth: int
    text: str  #: such as `prefix: type = "order."`, or a part of a CESQL expression
    passes: bool | None  #: None = a value in an expression, neither true nor false
    found: str  #: what the event has there; "" if that says nothing
    decides: bool = False  #: the smallest part that alone decides about the event
    operand: bool = False  #: a part inside of a CESQL expression


def compile_filter(filter_: Filter) -> Matcher | None:
    """A function that evaluates the filter without parsing; None for ALL_EVENTS.

    Raises CesqlSyntaxError for an invalid expression; a checked filter has none.
    """
    return None if filter_ == ALL_EVENTS else _matcher(filter_)


def explain(filter_: Filter, attributes: Mapping[str, str], depth: int = 0, *, decides: bool = True) -> Iterator[Part]:
    """Each part of a filter with what it says of an event with these attributes, the whole first. `decides`: whether
    the decision about the event is in this filter."""
    passes = _passes(filter_, attributes)
    match filter_:
        case All() | Any_():
            all_or_none = "every event passes" if isinstance(filter_, All) else "no event passes"
            one = _decider(filter_, attributes) if decides else None
            yield Part(
                depth,
                dialect(filter_),
                passes,
                "" if filter_.filters else f"no filters: {all_or_none}",
                decides and one is None,
            )
            for place, inner in enumerate(filter_.filters):
                yield from explain(inner, attributes, depth + 1, decides=place == one)
        case Not():
            yield Part(depth, "not", passes, "")
            yield from explain(filter_.filter, attributes, depth + 1, decides=decides)
        case Cesql():
            yield from _explain_expression(filter_.expression, attributes, depth, decides=decides)
        case _:
            # One attribute decides if it fails, or if there is no other.
            alone = [_passes(type(filter_)((pair,)), attributes) for pair in filter_.pairs]
            decider = alone.index(False) if False in alone else 0 if len(alone) == 1 else None
            for place, (name, text) in enumerate(filter_.pairs):
                found = repr(attributes[name]) if name in attributes else "the event has no such attribute"
                wanted = repr(text) if text else "any value"
                text_ = f"{dialect(filter_)}: {name} = {wanted}"
                yield Part(depth, text_, alone[place], found, decides and place == decider)


def _explain_expression(text: str, attributes: Mapping[str, str], depth: int, *, decides: bool) -> Iterator[Part]:
    for step in cesql.compile(text).explain(attributes):
        found = "; ".join(map(str, step.errors)) or _shown(step.value)
        shown = f"cesql: {step.text}" if step.depth == 0 else step.text
        is_value = step.depth > 0 and not step.errors and not isinstance(step.value, bool)
        passes = None if is_value else step.value is True and not step.errors
        yield Part(depth + step.depth, shown, passes, found, decides and step.decides, operand=step.depth > 0)


def _shown(value: cesql.Value) -> str:
    """A value as it is written in an expression."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _passes(filter_: Filter, attributes: Mapping[str, str]) -> bool:
    matcher = compile_filter(filter_)
    return matcher is None or matcher(attributes)


def _decider(filter_: All | Any_, attributes: Mapping[str, str]) -> int | None:
    """The place of the filter that decides alone: the first that fails in `all`, that passes in `any`, or the only one.
    None if they decide together."""
    wanted = isinstance(filter_, Any_)
    found = (place for place, one in enumerate(filter_.filters) if _passes(one, attributes) is wanted)
    return next(found, 0 if len(filter_.filters) == 1 else None)


def _matcher(filter_: Filter) -> Matcher:
    match filter_:
        case Attributes():
            values = tuple((name, canonical(name, text)) for name, text in filter_.pairs)
            present = tuple(name for name, text in values if not text)
            equal = _exact(tuple(pair for pair in values if pair[1]))
            return (lambda event: equal(event) and all(map(event.get, present))) if present else equal
        case Exact():
            return _exact(tuple((name, canonical(name, text)) for name, text in filter_.pairs))
        case Prefix():
            return _affix(filter_.pairs, str.startswith)
        case Suffix():
            return _affix(filter_.pairs, str.endswith)
        case All():
            return _all(tuple(_matcher(one) for one in filter_.filters if one != ALL_EVENTS))
        case Any_():
            return _any(tuple(_matcher(one) for one in filter_.filters))
        case Not():
            inner = _matcher(filter_.filter)
            return lambda event: not inner(event)
        case Cesql():
            return cesql.compile(filter_.expression).matches


def _exact(pairs: Pairs) -> Matcher:
    if len(pairs) == 1:  # most filters
        ((name, text),) = pairs
        return lambda event: event.get(name) == text
    wanted = dict(pairs).items()
    return lambda event: wanted <= event.items()


def _affix(pairs: Pairs, fits: Callable[[str, str], bool]) -> Matcher:
    def affix(event: Mapping[str, str]) -> bool:
        return all(name in event and fits(event[name], text) for name, text in pairs)

    return affix


def _all(matchers: tuple[Matcher, ...]) -> Matcher:
    if len(matchers) == 1:
        return matchers[0]
    return lambda event: all(matcher(event) for matcher in matchers)


def _any(matchers: tuple[Matcher, ...]) -> Matcher:
    return lambda event: any(matcher(event) for matcher in matchers)
