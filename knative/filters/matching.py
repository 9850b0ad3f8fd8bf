"""Compiles filters to functions of an event's attributes, and explains how a filter judges an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from knative import cesql
from knative.cesql import Fault, LimitExceeded, Metered
from knative.errors import SHOWN_CHARS
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

#: An operator, a function, an operand or a condition takes as long as an operation on this many characters.
_PART_COST = 64
_AT_ONCE_COST = 2 * cesql.BUDGET
_NO_FILTERS: dict[Filter, str] = {
    All(()): "no filters: every event passes",
    Any_(()): "no filters: no event passes",
}

#: Whether an event with these attributes passes (`knative/filters/attributes` makes them). Never raises.
Matcher = Callable[[Mapping[str, str]], bool]
#: See `compile_filter`.
Exceeded = Callable[[str, Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a filter and what it says about an event. `depth`: how far it is inside (0 = the whole filter)."""

    depth: int
    text: str  #: such as `prefix: type = "order."`, or a part of a CESQL expression
    passes: bool | None  #: None = a value in an expression, neither true nor false
    value: str  #: what the event has there; "" if that says nothing
    decides: bool = False  #: the smallest part that alone decides about the event
    operand: bool = False  #: a part inside of a CESQL expression


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """A filter that evaluates without parsing."""

    matches: Matcher
    at_once: int  #: events to judge before others have their turn: even the slowest take no longer than some 10 ms


def _ignored(why: str, attributes: Mapping[str, str]) -> None:
    """A filter has exceeded its limits, and nobody wants to know."""


def compile_filter(filter_: Filter, exceeded: Exceeded = _ignored) -> CompiledFilter | None:
    """Compiles a filter; None for ALL_EVENTS. `exceeded` is called with the reason, and the attributes of the event,
    when a filter would need more than `knative/cesql/limits` allows; the event does not pass then, whatever is around
    the expression.

    Raises CesqlSyntaxError for an invalid expression; a checked filter has none.
    """
    if filter_ == ALL_EVENTS:
        return None
    texts = [leaf.expression for leaf in _leaves(filter_) if isinstance(leaf, Cesql)]
    expressions = cesql.compile_all(texts) if texts else {}
    weights = sum(expressions[leaf.expression].weight for leaf in _leaves(filter_) if isinstance(leaf, Cesql))
    parts = sum(_parts(leaf, expressions) for leaf in _leaves(filter_))
    at_once = max(1, _AT_ONCE_COST // (parts * _PART_COST + min(weights * cesql.TEXT_MAX, cesql.BUDGET) + 1))
    plain = _matcher(filter_, lambda text: _passes_if_true(expressions[text].closure))
    if not weights:
        return CompiledFilter(plain, at_once)

    @cache  # few filters ever need it
    def metered() -> Matcher:
        return _matcher(filter_, lambda text: _passes_if_true(expressions[text].metered))

    def counting(attributes: Mapping[str, str]) -> bool:
        try:
            return metered()(Metered(attributes))  # type: ignore[arg-type]  # its values are those of the event
        except LimitExceeded as problem:
            exceeded(str(problem), attributes)
            return False

    if isinstance(filter_, Cesql):
        return CompiledFilter(_one_expression(expressions[filter_.expression].closure, counting), at_once)

    def matches(attributes: Mapping[str, str]) -> bool:
        try:
            return plain(attributes)
        except LimitExceeded:
            return counting(attributes)

    return CompiledFilter(matches, at_once)


def _one_expression(closure: Callable[[Any], cesql.Value], counting: Matcher) -> Matcher:
    """Compiles like `compile_filter`, with one call less for filters that are only an expression."""

    def matches(attributes: Mapping[str, str]) -> bool:
        try:
            return closure(attributes) is True
        except Fault:
            return False
        except LimitExceeded:
            return counting(attributes)

    return matches


def _passes_if_true(closure: Callable[[Any], cesql.Value]) -> Matcher:
    def matches(attributes: Mapping[str, str]) -> bool:
        try:
            return closure(attributes) is True
        except Fault:
            return False

    return matches


def has_expression(filter_: Filter) -> bool:
    """Returns whether a part of the filter is CESQL."""
    return any(isinstance(leaf, Cesql) for leaf in _leaves(filter_))


def _leaves(filter_: Filter) -> Iterator[Filter]:
    """Yields the filters that are not made of others."""
    match filter_:
        case All() | Any_():
            for inner in filter_.filters:
                yield from _leaves(inner)
        case Not():
            yield from _leaves(filter_.filter)
        case _:
            yield filter_


def _parts(leaf: Filter, expressions: Mapping[str, cesql.Expression]) -> int:
    if isinstance(leaf, Cesql):
        return expressions[leaf.expression].size
    return len(leaf.pairs) if isinstance(leaf, Attributes | Exact | Prefix | Suffix) else 0


def explain(filter_: Filter, attributes: Mapping[str, str], depth: int = 0, *, decides: bool = True) -> Iterator[Part]:
    """Yields each part of a filter with its result for an event with these attributes, the whole first. `decides`:
    whether the decision about the event is in this filter."""
    passes, exceeded = _judged(filter_, attributes)
    match filter_:
        case All() | Any_() | Not():
            place = _decider(filter_, attributes, exceeded=bool(exceeded)) if decides else None
            value = exceeded or _NO_FILTERS.get(filter_, "")
            yield Part(depth, dialect(filter_), passes, value, decides and place is None)
            for number, inner in enumerate(_inner(filter_)):
                yield from explain(inner, attributes, depth + 1, decides=number == place)
        case Cesql():
            yield from _explain_expression(filter_.expression, attributes, depth, decides=decides)
        case _:
            # One attribute decides if it fails, or if there is no other.
            alone = [_passes(type(filter_)((pair,)), attributes) for pair in filter_.pairs]
            decider = alone.index(False) if False in alone else 0 if len(alone) == 1 else None
            for place, (name, text) in enumerate(filter_.pairs):
                value = _shown(attributes[name]) if name in attributes else "the event does not have this attribute"
                expected = repr(text) if text else "any value"
                text_ = f"{dialect(filter_)}: {name} = {expected}"
                yield Part(depth, text_, alone[place], value, decides and place == decider)


def _explain_expression(text: str, attributes: Mapping[str, str], depth: int, *, decides: bool) -> Iterator[Part]:
    for step in cesql.compile(text).explain(attributes):
        value = "; ".join(map(str, step.errors)) or _shown(step.value)
        label = f"cesql: {step.text}" if step.depth == 0 else step.text
        is_value = step.depth > 0 and not step.errors and not isinstance(step.value, bool)
        passes = None if is_value else step.value is True and not step.errors
        yield Part(depth + step.depth, label, passes, value, decides and step.decides, operand=step.depth > 0)


def _shown(value: cesql.Value) -> str:
    """Returns a value as an expression has it; a long text only in part, because every part around it has it too."""
    if isinstance(value, str) and len(value) > SHOWN_CHARS:
        return f"{value[:SHOWN_CHARS]!r}... ({len(value):,} characters)"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _inner(filter_: All | Any_ | Not) -> tuple[Filter, ...]:
    return (filter_.filter,) if isinstance(filter_, Not) else filter_.filters


def _judged(filter_: Filter, attributes: Mapping[str, str]) -> tuple[bool, str]:
    """Returns whether it passes, and the limit that it exceeds ("" = none)."""
    reasons: list[str] = []
    compiled = compile_filter(filter_, lambda why, _: reasons.append(why))
    return compiled is None or compiled.matches(attributes), "".join(reasons)


def _passes(filter_: Filter, attributes: Mapping[str, str]) -> bool:
    return _judged(filter_, attributes)[0]


def _decider(filter_: All | Any_ | Not, attributes: Mapping[str, str], *, exceeded: bool) -> int | None:
    """Returns the place of the filter inside that decides alone: the first that exceeds a limit, that fails in `all`,
    that passes in `any`, or the only one. None if they decide together."""
    inner = [_judged(part, attributes) for part in _inner(filter_)]
    if exceeded:
        return next((place for place, (_, why) in enumerate(inner) if why), None)
    decisive = isinstance(filter_, Any_)
    places = (place for place, (passes, _) in enumerate(inner) if passes is decisive)
    return 0 if len(inner) == 1 else next(places, None)


def _matcher(filter_: Filter, expression: Callable[[str], Matcher]) -> Matcher:
    """Returns the matcher of a filter. `expression` makes the matcher of a CESQL expression."""
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
            return _all(tuple(_matcher(inner, expression) for inner in filter_.filters if inner != ALL_EVENTS))
        case Any_():
            return _any(tuple(_matcher(inner, expression) for inner in filter_.filters))
        case Not():
            inner = _matcher(filter_.filter, expression)
            return lambda event: not inner(event)
        case Cesql():
            return expression(filter_.expression)


def _exact(pairs: Pairs) -> Matcher:
    if len(pairs) == 1:  # most filters
        ((name, text),) = pairs
        return lambda event: event.get(name) == text
    items = dict(pairs).items()
    return lambda event: items <= event.items()


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
