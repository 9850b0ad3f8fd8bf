"""What pages read and do beside the state: stored events, dead letters, moves of offsets. `app` supplies it.

Everything that a person does goes to the audit topic first: who, when, what. Texts of events are attackers' texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from knative.contract.records import Channel, Subscription
from knative.contract.seeks import Move


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A record of a channel's topic or of its DLQ topic. Its bytes are unchanged."""

    topic: str
    partition: int
    offset: int
    time_s: float  #: when Kafka stored it, Unix seconds
    key: bytes | None
    attributes: Mapping[str, str]
    headers: Mapping[str, str]  #: all others
    data: bytes | None  #: None in lists
    size: int  #: of the data, in bytes

    @property
    def ref(self) -> str:
        """TOPIC/PARTITION/OFFSET."""
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Events:
    """Some records of a topic, the newest first."""

    events: Sequence[StoredEvent]
    read: int  #: records that were looked at
    is_whole: bool = True  #: False: a limit came before the end
    problem: str | None = None  #: why there is nothing newer


class Verdict(StrEnum):
    """What became of an event for one subscription."""

    DELIVERED = "delivered"  #: or given up without a dead letter, where the subscription discards
    FILTERED = "filtered"
    RETRYING = "retrying"
    WAITING = "waiting"
    LETTER = "dead letter"
    REDRIVEN = "redriven"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Passage:
    """Where an event is on its way to one subscription."""

    subscription: Subscription
    verdict: Verdict
    why: str  #: one sentence
    letter: str | None = None  #: reference of its dead letter


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """Which dead letters; None = any."""

    subscription: str | None = None  #: label
    reason: str | None = None  #: a part of the reason; case does not matter
    since: str | None = None  #: how long ago, or an RFC 3339 time
    refs: Sequence[str] = ()  #: these only


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter in a list."""

    ref: str
    time_s: float
    subscription: str  #: label; "" = it does not say
    reason: str
    id: str
    type: str
    source: str
    attempts: str
    redriven_at: str | None  #: RFC 3339; None = it was not


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Letters of one subscription with one reason."""

    subscription: str
    reason: str
    count: int
    redriven: int
    oldest_s: float
    newest_s: float


@dataclass(frozen=True, slots=True)
class Letters:
    """The chosen letters in all their groups, and the newest of them one by one."""

    groups: Sequence[LetterGroup]
    rows: Sequence[LetterRow]
    count: int
    is_whole: bool = True  #: False: a limit came before the end


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter with all of its fields."""

    row: LetterRow
    event: StoredEvent
    answer: bytes | None  #: the beginning of the subscriber's answer
    destination: str
    form: tuple[str, str]  #: what a form edits of its data: `data` and the text, or `data_base64`


@dataclass(frozen=True, slots=True)
class Task:
    """Something that a person has started and that takes a while."""

    id: str
    who: str
    act: str  #: redrive or seek
    what: str
    began_s: float
    ended_s: float | None
    progress: str
    problem: str | None  #: why it ended badly
    can_stop: bool


@dataclass(frozen=True, slots=True)
class Deed:
    """A record of the audit topic."""

    time_s: float
    who: str
    act: str
    what: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer to an event that was sent by the form."""

    id: str
    status: int
    reason: str
    ms: float


class Acts(Protocol):
    """What pages may do. Every call is bounded, and raises NotReadyError when Kafka does not answer, PenstockError for
    what cannot be done, and UsageError for texts that are not valid. Event loop only. What is done needs `who`."""

    @property
    def ingress(self) -> str | None:
        """The address of this worker's ingress, as its machine sees it; None: it has none."""

    async def tail(self, topic: str, filter_: str) -> Events | None:
        """Returns the last events, and those that have come since; None: Kafka has not answered yet."""

    async def stored(self, topic: str, filter_: str, start: str) -> Events:
        """Returns events from a time or from PARTITION/OFFSET on."""

    async def event(self, topic: str, partition: int, offset: int) -> StoredEvent | None:
        """Reads one event; None if the topic does not have it."""

    async def passages(self, event: StoredEvent, channel: Channel) -> Sequence[Passage]:
        """Returns what became of an event of the channel, for each of its subscriptions."""

    async def with_id(self, topic: str, id_: str) -> Events:
        """Returns the events that have this id."""

    async def send(self, channel: Channel, attributes: Mapping[str, str], data: str, who: str) -> Sent:
        """Send an event to a channel or broker by HTTP."""

    async def letters(self, choice: LetterChoice) -> Letters:
        """Returns dead letters."""

    async def letter(self, ref: str) -> Letter | None:
        """Reads one dead letter; None if the topic does not have it."""

    async def redrive(self, choice: LetterChoice, rate: str, limit: str, who: str) -> None:
        """Start to deliver the chosen letters again."""

    async def send_edited(self, ref: str, attributes: str, data: str, who: str) -> None:
        """Start to deliver a letter again, with these attributes (JSON) and this data."""

    async def moves(self, subscription: Subscription, to: str) -> Sequence[Move]:
        """Returns what a seek would move now."""

    async def seek(self, subscription: Subscription, to: str, who: str) -> None:
        """Start to move the offsets."""

    async def deeds(self) -> Sequence[Deed]:
        """Returns the newest acts of people, the newest first."""

    def tasks(self) -> Sequence[Task]:
        """Returns what was started here, the newest first."""

    async def stop_task(self, id_: str, who: str) -> None:
        """Have a task end early."""

    async def leave(self) -> None:
        """The process is about to end: begin nothing more, end what is under way, and wait for that, within a limit."""
