"""`Acts` of the console over values that a test gives. It keeps what people asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knative.contract.records import Channel, Subscription
from knative.contract.seeks import Move
from web.console.acts import (
    Deed,
    Events,
    Letter,
    LetterChoice,
    LetterGroup,
    LetterRow,
    Letters,
    Passage,
    Sent,
    StoredEvent,
    Task,
)


@dataclass
class MemoryActs:
    """What it shows is given; what it is asked to do is in `done`."""

    events: Sequence[StoredEvent] = ()
    rows: Sequence[LetterRow] = ()
    groups: Sequence[LetterGroup] = ()
    whole: Sequence[Letter] = ()
    moved: Sequence[Move] = ()
    passed: Sequence[Passage] = ()
    audit: Sequence[Deed] = ()
    running: Sequence[Task] = ()
    done: list[tuple[object, ...]] = field(default_factory=list)
    is_whole: bool = True  #: of the letters
    problem: str | None = None  #: of the tail
    ingress: str | None = "http://127.0.0.1:8080"

    async def tail(self, topic: str, filter_: str) -> Events | None:
        return Events(self.events, len(self.events), problem=self.problem)

    async def stored(self, topic: str, filter_: str, start: str) -> Events:
        return Events(self.events, len(self.events), is_whole=False)

    async def with_id(self, topic: str, id_: str) -> Events:
        return Events([event for event in self.events if event.attributes.get("id") == id_], len(self.events))

    async def event(self, topic: str, partition: int, offset: int) -> StoredEvent | None:
        ref = f"{topic}/{partition}/{offset}"
        return next((event for event in self.events if event.ref == ref), None)

    async def passages(self, event: StoredEvent, channel: Channel) -> Sequence[Passage]:
        return self.passed

    async def send(self, channel: Channel, attributes: Mapping[str, str], data: str, who: str) -> Sent:
        self.done.append(("send", channel.title, dict(attributes), data, who))
        return Sent("an-id", 202, "", 1.5)

    async def letters(self, choice: LetterChoice) -> Letters:
        return Letters(self.groups, self.rows, len(self.rows), self.is_whole)

    async def letter(self, ref: str) -> Letter | None:
        return next((letter for letter in self.whole if letter.row.ref == ref), None)

    async def redrive(self, choice: LetterChoice, rate: str, limit: str, who: str) -> None:
        self.done.append(("redrive", choice, rate, limit, who))

    async def send_edited(self, ref: str, attributes: str, data: str, who: str) -> None:
        self.done.append(("edit", ref, attributes, data, who))

    async def moves(self, subscription: Subscription, to: str) -> Sequence[Move]:
        return self.moved

    async def seek(self, subscription: Subscription, to: str, who: str) -> None:
        self.done.append(("seek", subscription.label, to, who))

    async def deeds(self) -> Sequence[Deed]:
        return self.audit

    def tasks(self) -> Sequence[Task]:
        return self.running

    async def stop_task(self, id_: str, who: str) -> None:
        self.done.append(("stop", id_, who))

    async def leave(self) -> None: ...


def stored_event(offset: int = 0, data: bytes = b"", **attributes: str) -> StoredEvent:
    """An event of partition 0 of the topic `t`."""
    full = {"specversion": "1.0", "id": str(offset), "source": "/shop", "type": "order.created", **attributes}
    return StoredEvent("t", 0, offset, time.time(), None, full, {}, data, len(data))
