"""Who sends the events of a type, and who gets them: by the filters of the subscriptions of the channels that it came
to.

A filter may decide by other attributes than the type, and then says "may". Pure.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import orjson

from analytics.topology.model.document import LISTED_MAX, Finding, Flow, Kind, Severity, Topology, Vertex
from analytics.topology.model.facts import Facts, rows_of
from analytics.topology.model.names import name
from knative.filters.dialects import ALL_EVENTS, Filter, from_json, to_json
from knative.filters.event_types import passes
from knative.shown import plural

_CUT_CHARS = 256  #: the traffic job cuts a type there, so one of this length may be the beginning of a longer one

Readers = Mapping[str, Mapping[str, Filter]]  #: channel -> its subscriptions and triggers -> filter


def readers_of(topology: Topology) -> Readers:
    """Returns the subscriptions and triggers of each channel in a document."""
    filters = {vertex.id: vertex.detail.get("filter") for vertex in topology.vertices}
    readers: dict[str, dict[str, Filter]] = defaultdict(dict)
    for edge in topology.edges:
        if edge.kind is Flow.SUBSCRIBES:
            text = filters.get(edge.target)
            readers[edge.source][edge.target] = from_json(orjson.loads(str(text))) if text else ALL_EVENTS
    return readers


def senders_of(topology: Topology) -> Mapping[str, Sequence[str]]:
    """Returns the sources of each event type, the busiest first."""
    senders: dict[str, list[str]] = defaultdict(list)
    for edge in sorted(topology.edges, key=lambda edge: -(edge.events or 0)):
        if edge.kind is Flow.SENDS:
            senders[edge.target].append(edge.source)
    return senders


def takers(readers: Readers, event_type: Vertex, channel: str) -> dict[str, bool]:
    """Returns subscriptions of the channel that get this event type. False: other attributes may decide otherwise."""
    answers = {id_: _takes(filter_, event_type.name) for id_, filter_ in readers.get(channel, {}).items()}
    return {id_: answer is True for id_, answer in answers.items() if answer is not False}


def types_of(topology: Topology) -> Mapping[str, Vertex]:
    """Returns the event types, by id."""
    return {vertex.id: vertex for vertex in topology.vertices if vertex.kind is Kind.EVENT_TYPE}


def _takes(filter_: Filter, type_: str) -> bool | None:
    if filter_ == ALL_EVENTS:
        return True
    return passes(filter_, type_) if 0 < len(type_) < _CUT_CHARS else None


def about_types(facts: Facts) -> Iterator[Finding]:
    """Finds types that no one takes, filters that nothing passed, and what is not as the EventTypes say."""
    yield from _untaken(facts)
    yield from _nothing_passed(facts)
    yield from _undeclared(facts)
    yield from _unseen(facts)


def _untaken(facts: Facts) -> Iterator[Finding]:
    """Finds types that no subscription takes. A channel without subscriptions is left out: the rule `unread` covers
    it."""
    filters: dict[str, set[Filter]] = defaultdict(set)
    for consumer in facts.consumers:
        filters[consumer.channel].add(consumer.subscription.filter)

    def is_untaken(id_: str, channel: str) -> bool:
        of = filters.get(channel, set())
        return bool(of) and all(_takes(filter_, name(id_)) is False for filter_ in of)

    return _of_types(
        facts,
        "untaken-type",
        is_untaken,
        "No subscription of {where} accepts events of the type {type}",
        lambda _: "where every filter excludes this type",
        "Ignore this if nobody needs these events. Otherwise compare the type and the filters letter by letter, "
        "or add a trigger.",
    )


def _nothing_passed(facts: Facts) -> Iterator[Finding]:
    types: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for id_, channel, events, _ in rows_of(facts.types):
        types[channel].append((-events, name(id_) or "other types"))
    for consumer in facts.consumers:
        total = facts.settled.get(consumer.id)
        if not consumer.filtered or total is None or not 0 < total.counts.filtered == total.counts.settled:
            continue
        came = [text for _, text in sorted(types[consumer.channel])]
        listed = f"{', '.join(came[:LISTED_MAX])}{' and others' if len(came) > LISTED_MAX else ''}"
        evidence = (
            f"It evaluated {total.counts.filtered} events in the window. None passed.",
            f"Its filter: {orjson.dumps(to_json(consumer.subscription.filter)).decode()}",
            f"Types that came to {name(consumer.channel)}: {listed}." if came else "",
        )
        yield Finding(
            f"filter-passed-nothing:{consumer.id}",
            "filter-passed-nothing",
            Severity.INFO,
            f"The filter of {name(consumer.id)} lets nothing pass",
            (consumer.id, consumer.channel),
            tuple(part for part in evidence if part),
            "Fine if its events are rare: try a longer window, --since 1d. Otherwise `penstock explain` says which "
            "part of the filter stops an event.",
        )


def _undeclared(facts: Facts) -> Iterator[Finding]:
    """Finds types that no EventType declares, in channels with declared types: elsewhere there is no list to compare
    with."""

    templates = {channel: list(_templates(types).values()) for channel, types in facts.declared.items()}

    def is_undeclared(id_: str, channel: str) -> bool:
        declared, type_ = facts.declared.get(channel, frozenset()), name(id_)
        if not declared or not 0 < len(type_) < _CUT_CHARS or type_ in declared:
            return False
        return not any(template.fullmatch(type_) for template in templates[channel])

    return _of_types(
        facts,
        "undeclared-type",
        is_undeclared,
        "No EventType of {where} declares {type}",
        lambda channel: f"for which {_declared(facts.declared[channel])}",
        "Compare it with the declared types letter by letter. If it should come, add an EventType; otherwise ask "
        "its senders: penstock topology impact.",
    )


def _of_types(
    facts: Facts, rule: str, holds: Callable[[str, str], bool], title: str, why: Callable[[str], str], cure: str
) -> Iterator[Finding]:
    """Yields one finding for each type, about our channels for which `holds(type, channel)`. `title` has `{where}` and
    `{type}`; `why` does so for a channel."""
    channels: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for id_, channel, events, _ in rows_of(facts.types):
        if channel in facts.own and holds(id_, channel):
            channels[id_].append((channel, events))
    for id_, some in channels.items():
        where = name(some[0][0]) if len(some) == 1 else f"{len(some)} channels"
        listed = some[:LISTED_MAX]
        yield Finding(
            f"{rule}:{id_}",
            rule,
            Severity.INFO,
            title.format(where=where, type=name(id_)),
            (id_, *(channel for channel, _ in listed)),
            tuple(f"{events} events came to {name(channel)}, {why(channel)}." for channel, events in listed),
            cure,
        )


def _declared(types: Collection[str]) -> str:
    return f"{plural(len(types), 'other type')} {'is' if len(types) == 1 else 'are'} declared"


def _templates(types: Collection[str]) -> dict[str, re.Pattern[str]]:
    """The types with parts that differ, `{name}` or `{}`: each stands for one character or more, as in Knative. A
    backslash before a brace makes it an ordinary one."""
    parts = {type_: re.split(r"(?<!\\)\{[^}]*\}", type_) for type_ in types if "{" in type_}
    return {
        # Patterns of fnmatch never take back what they have matched, so many such parts cost no more than a few.
        type_: re.compile(fnmatch.translate("?*".join(glob.escape(re.sub(r"\\([{}])", r"\1", text)) for text in texts)))
        for type_, texts in parts.items()
    }


def _may_be(template: re.Pattern[str], came: str) -> bool:
    return len(came) >= _CUT_CHARS or template.fullmatch(came) is not None


def _unseen(facts: Facts) -> Iterator[Finding]:
    """Finds declared types that did not come. Skips a channel that received events of unknown types: in structured
    mode, or beyond the limit."""
    if facts.types is None:
        return
    came: dict[str, set[str]] = defaultdict(set)
    for id_, channel, _, _ in rows_of(facts.types):
        came[channel].add(name(id_)[:_CUT_CHARS])
    for channel in sorted(facts.own & facts.declared.keys()):
        templates = _templates(facts.declared[channel])
        types = sorted(
            type_
            for type_ in facts.declared[channel]
            if type_[:_CUT_CHARS] not in came[channel]
            and not (type_ in templates and any(_may_be(templates[type_], text) for text in came[channel]))
        )
        if types and "" not in came[channel]:
            yield Finding(
                f"unseen-type:{channel}",
                "unseen-type",
                Severity.INFO,
                f"{len(types)} of {len(facts.declared[channel])} declared event types did not come to {name(channel)}",
                (channel,),
                tuple(f"No event of the type {type_} came in the window." for type_ in types[:LISTED_MAX]),
                "Fine if they are rare: try a longer window, --since 1d. Otherwise check the senders, or delete the "
                "EventTypes.",
            )
