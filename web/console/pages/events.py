"""Events of a channel or broker, or its dead letters, as they come or as they are stored; and one of them, whole, with
what became of it for each subscription. As `penstock tail`, `explain`, `lag` and `dlq`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote
from urllib.parse import urlencode

from knative.contract.records import BROKER, Channel
from knative.errors import PenstockError
from web.console.acts import Events, Passage, StoredEvent, Verdict
from web.console.bodies import body_of, curl
from web.console.page import Ask, Choices, NotThere, Page, Values, choices
from web.console.pages.letters import letter_path
from web.console.rows import path_of
from web.console.state import State
from web.console.traffic import rates

_NOW = "now"
_STYLES = {
    Verdict.DELIVERED: "ok",
    Verdict.REDRIVEN: "ok",
    Verdict.FILTERED: "idle",
    Verdict.WAITING: "unknown",
    Verdict.UNKNOWN: "unknown",
    Verdict.RETRYING: "warn",
    Verdict.LETTER: "bad",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What the address of the page asks for."""

    channel: Channel
    letters: bool  #: its dead letters
    filter: str
    start: str  #: `now`, a time, or PARTITION/OFFSET
    id: str

    @property
    def topic(self) -> str:
        """The topic that is read."""
        return self.channel.dlq_topic if self.letters else self.channel.topic

    @property
    def is_tail(self) -> bool:
        """Whether the page shows events as they come."""
        return self.start == _NOW and not self.id

    @property
    def command(self) -> str:
        """The command that prints the same."""
        options = ["--dlq"] if self.letters else []
        if self.filter:
            options += ["--filter", quote(self.filter)]
        if self.id:
            options += ["--no-follow", "--filter", quote(f"id={self.id}")]
        elif not self.is_tail and "/" not in self.start:
            options += ["--no-follow", "--since", quote(self.start)]
        return " ".join(["penstock tail", quote(f"{self.channel.namespace}/{self.channel.name}"), *options])


def channels_of(state: State) -> list[Channel]:
    """Returns the channels whose topics can be read, by title."""
    channels = [status.channel for status in state.resources if status.channel is not None]
    return sorted(channels, key=lambda channel: (channel.namespace, channel.name, channel.kind))


def channel_choices(ask: Ask) -> Choices:
    """Returns the channels as choices for a form."""
    names = {
        channel.title: f"{channel.namespace}/{channel.name}{' (broker)' if channel.kind == BROKER else ''}"
        for channel in channels_of(ask.state)
    }
    return choices(names, ask.limits.rows_max)


def channel_of(state: State, title: str) -> Channel:
    """Reads KIND/NAMESPACE/NAME; "" = the first. Raises NotThere."""
    channels = channels_of(state)
    for channel in channels:
        if title in ("", channel.title):
            return channel
    what = f"The channel or broker {title[:300]} does not exist." if title else "There are no channels or brokers yet."
    raise NotThere(what)


def _busiest(state: State) -> Channel:
    """Returns what is shown where nobody has chosen. Raises NotThere."""
    per_s = rates(state.traffic) or {}
    channels = channels_of(state) or [channel_of(state, "")]
    return max(channels, key=lambda channel: per_s.get((channel.namespace, channel.unique_name, ""), 0.0))


def look_of(state: State, query: Mapping[str, str]) -> Look:
    """Reads the query. Raises NotThere."""
    return Look(
        channel_of(state, query["of"]) if query.get("of") else _busiest(state),
        query.get("what") == "letters",
        query.get("filter", "").strip(),
        query.get("from", "").strip() or _NOW,
        query.get("id", "").strip(),
    )


def event_rows(events: Iterable[StoredEvent], look: Look) -> list[Values]:
    """Returns events with the address of each."""
    what = {"what": "letters"} if look.letters else {}
    return [
        {
            "event": event,
            "id": event.attributes.get("id", ""),
            "type": event.attributes.get("type", ""),
            "source": event.attributes.get("source", ""),
            "more": [
                (name, value)
                for name, value in event.attributes.items()
                if name not in ("id", "type", "source", "specversion", "time", "knativeerrordata")
            ][:12],
            "path": "/event?"
            + urlencode({"of": look.channel.title, **what, "at": f"{event.partition}/{event.offset}"}),
        }
        for event in events
    ]


async def _list(ask: Ask) -> Values:
    try:
        look = look_of(ask.state, ask.query)
    except NotThere:
        if channels_of(ask.state):
            raise
        return {"look": None}
    events: Events | None = None
    problem = None
    if look.is_tail or not ask.is_live:
        try:
            events = await _events(ask, look)
            problem = None if events is None else events.problem
        except PenstockError as raised:
            problem = str(raised)
    # The busiest is another one later; what is open goes on with the same.
    address = {} if ask.query.get("of") else {"url": "/events?" + urlencode({**ask.query, "of": look.channel.title})}
    return {
        **address,
        "look": look,
        "channels": channel_choices(ask),
        "events": None if events is None else event_rows(events.events, look),
        "read": 0 if events is None else events.read,
        "is_whole": events is None or events.is_whole,
        "problem": problem,
    }


async def _events(ask: Ask, look: Look) -> Events | None:
    if look.id:
        return await ask.acts.with_id(look.topic, look.id)
    if look.is_tail:
        return await ask.acts.tail(look.topic, look.filter)
    return await ask.acts.stored(look.topic, look.filter, look.start)


async def _whole(ask: Ask) -> Values:
    look = look_of(ask.state, ask.query)
    partition, _, offset = ask.query.get("at", "").partition("/")
    gone = NotThere(
        f"The topic {look.topic} has no event {ask.query.get('at', '')[:40]}. Retention may have removed it."
    )
    if not (is_number(partition) and is_number(offset)):
        raise gone
    event = await ask.acts.event(look.topic, int(partition), int(offset))
    if event is None:
        raise gone
    passages = [] if look.letters else await ask.acts.passages(event, look.channel)
    subscriptions = [status.subscription for status in ask.state.resources if status.subscription is not None]
    url = f"{ask.acts.ingress or 'http://localhost:8080'}{look.channel.path}"
    data = await asyncio.to_thread(_data, event, url) if ask.has_bodies else {"body": None, "curl": None}
    return {
        "look": look,
        "event": event,
        "letter_path": letter_path(event.ref) if look.letters else None,
        "channel_path": path_of(look.channel.kind, look.channel.namespace, look.channel.name),
        "key": None if event.key is None else event.key.decode("utf-8", "replace"),
        "has_bodies": ask.has_bodies,
        **data,
        "passages": [passage_row(passage) for passage in passages],
        "readers": sum(subscription.channel_uid == look.channel.uid for subscription in subscriptions),
    }


def _data(event: StoredEvent, url: str) -> Values:
    """Returns what a page shows of the data. Takes some milliseconds: call it in a thread."""
    return {"body": body_of(event.data), "curl": curl(event, url)}


def is_number(text: str) -> bool:
    """Returns whether it may be a partition or an offset."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def passage_row(passage: Passage) -> Values:
    """Returns what became of the event for one subscription."""
    subscription = passage.subscription
    return {
        "name": f"{subscription.namespace}/{subscription.name}",
        "kind": subscription.kind.lower(),
        "path": path_of(subscription.kind, subscription.namespace, subscription.name),
        "style": _STYLES[passage.verdict],
        "word": passage.verdict.value.capitalize(),
        "why": passage.why,
        "letter_path": None if passage.letter is None else letter_path(passage.letter),
    }


PAGES = (
    Page("/events", "events.html", _list, nav="Events", place=20),
    Page("/event", "event.html", _whole, live=False),
)
