"""Fields and annotations that several kinds have: delivery, order, concurrency, start, hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from knative.delivery.policy import BackoffPolicy, DeliveryFormat, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from knative.hosts import owner_by_address
from knative.resources.destination import NAME_CHARS_MAX, destination, destination_of
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import Choice, Complaint, Duration, Integer, Object, Text
from knative.resources.values import DeliveryRules, Start, StartPosition, StartTime

ORDER = "kafka.eventing.knative.dev/delivery.order"
CONCURRENCY = "penstock.dev/concurrency"
START = "penstock.dev/start"
EXHAUSTED = "penstock.dev/exhausted"
HOSTS = "penstock.dev/hosts"
KEEP_TOPIC = "penstock.dev/keep-topic"

#: Of partitions, of subscribers and of requests at once: more is a mistake.
COUNT_MAX = 10_000
HOSTS_MAX = 32

_DEFAULT = DeliverySpec()
_HOST_PATTERN = "[a-zA-Z0-9_]([a-zA-Z0-9._-]*[a-zA-Z0-9_])?"
_HOST = re.compile(_HOST_PATTERN, re.ASCII)
_SPACE = "[ \t]*"


def delivery(meaning: str) -> Object:
    """Returns the shape of a `delivery`."""
    return Object(
        meaning=meaning,
        title="Delivery",
        fields={
            "retry": Integer(
                meaning="Number of attempts after the first.", default=_DEFAULT.retry, least=0, layered=True
            ),
            "backoffPolicy": Choice(
                meaning="`exponential` (delay x 2^(n-1) before retry n) or `linear` (delay x n).",
                choices=tuple(BackoffPolicy),
                default=_DEFAULT.backoff_policy,
                layered=True,
            ),
            "backoffDelay": Duration(meaning="Wait before the first retry.", default="PT0.2S", layered=True),
            "timeout": Duration(meaning="Time limit of one attempt.", default="PT300S", positive=True, layered=True),
            "retryAfterMax": Duration(
                meaning="Upper limit of `Retry-After`; `PT0S` ignores the header. By default 10 minutes."
            ),
            "format": Choice(
                meaning="How a request carries the event: `binary`, or `json` (the whole event as a JSON object).",
                choices=tuple(DeliveryFormat),
                default=_DEFAULT.format,
                layered=True,
            ),
            "deadLetterSink": destination(
                "Where an event is sent when its retries are used up. Without a sink, such events go to the DLQ topic."
            ),
        },
    )


def delivery_of(values: Mapping[str, Any] | None) -> DeliveryRules | None:
    """Returns the value of what was read; None if there is no `delivery`."""
    if values is None:
        return None
    policy, format_ = values["backoffPolicy"], values["format"]
    return DeliveryRules(
        retry=values["retry"],
        backoff_policy=policy and BackoffPolicy(policy),
        backoff_delay_s=values["backoffDelay"],
        timeout_s=values["timeout"],
        retry_after_max_s=values["retryAfterMax"],
        format=format_ and DeliveryFormat(format_),
        dead_letter_sink=destination_of(values["deadLetterSink"]),
    )


def order_annotation(default: str) -> Choice:
    """Returns the shape of what must stay in order. `default`: for people."""
    meaning = f"What stays in order: the partition, each record key in it, or nothing. By default {default}."
    return Choice(meaning=meaning, choices=tuple(DeliveryOrder))


def order_of(text: str) -> DeliveryOrder | None:
    """Returns the value; None if absent."""
    return DeliveryOrder(text) if text else None


def concurrency_annotation(default: str) -> Text:
    """Returns the shape of the requests in flight. `default`: for people."""
    return Text(
        meaning=f"Maximum number of requests in flight, per process. By default {default}.",
        pattern="0*([1-9][0-9]{0,3}|10000)",
        characters_max=9,
        what="is not a valid number of requests",
        hint=f'write "1" to "{COUNT_MAX}"',
    )


def concurrency_of(text: str) -> int | None:
    """Returns the value; None if absent."""
    return int(text) if text else None


START_ANNOTATION = Text(
    meaning="Where a new subscription begins to read: `latest`, `earliest` or a time such as `2026-01-31T08:00:00Z`.",
    default=Start.LATEST,
    pattern=(
        "latest|earliest|[0-9]{4}-[0-9]{2}-[0-9]{2}[tT][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
        "([zZ]|[+-][0-9]{2}:[0-9]{2})"
    ),
    characters_max=64,
    what="is not a valid start",
    hint="write earliest, latest or a time such as 2026-01-31T08:00:00Z",
    check=lambda text: None if text in tuple(Start) else time_complaint(text, "is not a valid start"),
)


def time_complaint(text: str, what: str) -> Complaint | None:
    """Returns why the text is not an RFC 3339 time; None if it is."""
    try:
        good = datetime.fromisoformat(text.upper()).tzinfo is not None
    except ValueError:
        good = False
    return None if good else (f"{text[:64]!r} {what}", "write earliest, latest or a time such as 2026-01-31T08:00:00Z")


def start_of(text: str) -> StartPosition:
    """Returns the value of a text without problems."""
    if text in tuple(Start):
        return Start(text)
    # To Kafka, negative times mean something else.
    return StartTime(max(0, round(datetime.fromisoformat(text.upper()).timestamp() * 1000)), text)


EXHAUSTED_ANNOTATION = Choice(
    meaning="`ignore`: an event whose retries are used up, and that no dead letter sink accepts, is dropped "
    "(counted and logged).",
    choices=tuple(OnRetriesExhausted),
    default=OnRetriesExhausted.DEAD_LETTER,
)

KEEP_TOPIC_ANNOTATION = Choice(
    meaning="`true`: the topics are kept when the object is deleted.", choices=("true", "false"), default="false"
)

HOSTS_ANNOTATION = Text(
    meaning="More host names at the ingress, separated by commas.",
    pattern=f"({_SPACE}({_HOST_PATTERN})?{_SPACE},)*{_SPACE}({_HOST_PATTERN})?{_SPACE}",
    characters_max=HOSTS_MAX * (NAME_CHARS_MAX + 2),
    what="is not a list of host names",
    hint="separate names by commas, without port or path",
    check=lambda text: _hosts_complaint(hosts_of(text)),
)


def hosts_of(text: str) -> tuple[str, ...]:
    """Returns the hosts of a list, each once."""
    return tuple(dict.fromkeys(host.strip().lower() for host in text.split(",") if host.strip()))


def claimed_hosts(text: str, namespace: str, annotations: ObjectReader) -> tuple[str, ...]:
    """Returns the hosts of a list that an object of this namespace may claim. The others are reported."""
    claimed = []
    for host in hosts_of(text):
        owner = owner_by_address(host, namespace)
        if owner is None:
            claimed.append(host)
        else:
            annotations.problem(
                HOSTS,
                f"{host!r} is the address of a channel in the namespace {owner!r}",
                f"only objects in the namespace {owner!r} can use it; choose another host name",
            )
    return tuple(claimed)


def _hosts_complaint(hosts: tuple[str, ...]) -> Complaint | None:
    for host in hosts:
        if len(host) > NAME_CHARS_MAX or not _HOST.fullmatch(host):
            return f"{host[:64]!r} is not a valid host name", "separate names by commas, without port or path"
    if len(hosts) > HOSTS_MAX:
        return f"has {len(hosts)} hosts", f"write at most {HOSTS_MAX}"
    return None
