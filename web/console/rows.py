"""Rows of resources as pages show them: a level, a word, and the figures; the worst come first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from urllib.parse import quote, urlencode

from knative.contract.records import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER, unique_name
from knative.resources.brokers import NOT_OUR_CLASS
from knative.resources.conditions import ConditionStatus
from tables.resource_status import ResourceStatus, conditions_of
from tables.traffic_windows.view import HeldRows, Name
from web.console.cures import cure_of
from web.console.traffic import NO_FLOW, UNKNOWN_FLOW, Flow, flows

_STYLES = {ConditionStatus.TRUE: "ok", ConditionStatus.FALSE: "bad", ConditionStatus.UNKNOWN: "unknown"}

#: Kind -> first part of the path of its page.
PATHS = {CHANNEL: "channel", BROKER: "broker", SUBSCRIPTION: "subscription", TRIGGER: "trigger"}


class Level(IntEnum):
    """How bad it is; the worst first."""

    BAD = 0
    UNKNOWN = 1
    WARN = 2
    OK = 3
    IDLE = 4

    @property
    def style(self) -> str:
        """Its class in the style sheet."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Row:
    """One resource. `channel`: label of the channel or broker of a subscription or trigger."""

    kind: str
    namespace: str
    name: str
    level: Level
    word: str
    reason: str
    message: str
    name_in_traffic: Name
    flow: Flow = NO_FLOW
    channel: str | None = None
    readers: int = 0  #: subscriptions of a channel
    lag: int = 0
    lag_s: float | None = None
    retrying: int = 0
    letters: int | None = None  #: dead letters not redriven; None = not known

    @property
    def path(self) -> str:
        """Its page. Addresses of rows that are not shown are never made."""
        return path_of(self.kind, self.namespace, self.name)

    @property
    def channel_path(self) -> str | None:
        """The page of `channel`."""
        if self.channel is None:
            return None
        return path_of(BROKER if self.kind == TRIGGER else CHANNEL, *self.channel.split("/", 1))

    @property
    def title(self) -> str:
        """KIND/NAMESPACE/NAME, as commands take it."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def letters_path(self) -> str:
        """The page of the dead letters of a subscription or trigger."""
        label = f"{self.namespace}/{unique_name(self.kind, self.name)}"
        return "/letters?" + urlencode({"subscription": label})

    @property
    def badness(self) -> tuple[int, int, int, int, str, str]:
        """A sort key that is lowest for the worst row."""
        return self.level, -(self.letters or 0), -self.retrying, -self.lag, self.namespace, self.name


def path_of(kind: str, namespace: str, name: str) -> str:
    """Returns the path of the page of a resource."""
    return f"/{PATHS[kind]}/{quote(namespace, '')}/{quote(name, '')}"


def row_of(status: ResourceStatus, letters: Mapping[str, int] | None, readers: int = 0) -> Row:
    """Returns the row of a resource, without its flow. `letters`: by label of the subscription."""
    subscription, details = status.subscription, status.details
    counted = None if letters is None or subscription is None else letters.get(subscription.label, 0)
    retrying = 0 if details is None else details.retrying
    level, word = level_of(status, retrying, counted or 0)
    in_traffic = (status.namespace, unique_name(status.kind, status.name), "")
    channel = None
    if subscription is not None:
        in_traffic = (status.namespace, subscription.unique_channel, subscription.unique_name)
        channel = f"{subscription.namespace}/{subscription.channel}"
    return Row(
        kind=status.kind,
        namespace=status.namespace,
        name=status.name,
        level=level,
        word=word,
        reason=status.ready.reason,
        message=status.ready.message,
        name_in_traffic=in_traffic,
        flow=NO_FLOW,
        channel=channel,
        readers=readers,
        lag=0 if details is None else details.lag,
        lag_s=None if details is None else details.lag_s,
        retrying=retrying,
        letters=counted,
    )


def level_of(status: ResourceStatus, retrying: int = 0, letters: int = 0) -> tuple[Level, str]:
    """Returns how bad a resource is, and the word for it."""
    ready = status.ready
    if ready.reason == NOT_OUR_CLASS:
        return Level.IDLE, "Left alone"
    if ready.status is ConditionStatus.FALSE:
        return Level.BAD, "Not ready"
    if ready.status is ConditionStatus.UNKNOWN:
        return Level.UNKNOWN, "Unknown"
    if retrying:
        return Level.WARN, "Retrying"
    if letters:
        return Level.WARN, "Dead letters"
    return (Level.WARN, "Ready, but") if ready.reason else (Level.OK, "Ready")


def condition_rows(status: ResourceStatus) -> list[Mapping[str, object]]:
    """Returns what its `Ready` is made of. What `Ready` itself says is not repeated."""
    ready = status.ready
    return [
        {
            "type": condition.type,
            "style": _STYLES[condition.status],
            "word": condition.status.value,
            "why": None if (condition.reason, condition.message) == (ready.reason, ready.message) else condition,
            "cure": cure_of(condition),
        }
        for condition in conditions_of(status)
    ]


def with_flows(rows: Iterable[Row], traffic: HeldRows | None) -> list[Row]:
    """Returns the rows with what flows now and has flowed in a quarter of an hour."""
    listed = list(rows)
    if traffic is None:
        return [replace(row, flow=UNKNOWN_FLOW) for row in listed]
    by_name = flows(traffic, {row.name_in_traffic for row in listed})
    return [replace(row, flow=by_name.get(row.name_in_traffic, NO_FLOW)) for row in listed]


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Sorts them; the same rows are always in the same order."""
    return sorted(rows, key=lambda row: row.badness)
