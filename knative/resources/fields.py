"""Fields that several kinds have: delivery, order, concurrency, start, hosts."""

from __future__ import annotations

import re
from datetime import datetime

from knative.delivery.policy import BackoffPolicy, DeliveryFormat, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from knative.resources.destination import read_destination
from knative.resources.object_reader import ObjectReader
from knative.resources.values import DeliveryRules, Start, StartPosition, StartTime

ORDER = "kafka.eventing.knative.dev/delivery.order"
CONCURRENCY = "penstock.dev/concurrency"
START = "penstock.dev/start"
EXHAUSTED = "penstock.dev/exhausted"
HOSTS = "penstock.dev/hosts"
KEEP_TOPIC = "penstock.dev/keep-topic"

CONCURRENCY_MAX = 10_000
HOSTS_MAX = 32

_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?", re.ASCII)


def read_delivery(spec: ObjectReader) -> DeliveryRules | None:
    """The `delivery`, each missing field with its default; None if there is no `delivery` at all."""
    reader = spec.mapping("delivery")
    if reader is None:
        return None
    default = DeliverySpec()
    retry_after_max = reader.text("retryAfterMax")
    rules = DeliveryRules(
        DeliverySpec(
            retry=reader.integer("retry", default.retry, 0),
            backoff_policy=BackoffPolicy(reader.choice("backoffPolicy", tuple(BackoffPolicy), default.backoff_policy)),
            backoff_delay_s=reader.duration_s("backoffDelay", default.backoff_delay_s),
            timeout_s=reader.duration_s("timeout", default.timeout_s, positive=True),
            retry_after_max_s=reader.duration_s("retryAfterMax", 0.0) if retry_after_max else None,
            format=DeliveryFormat(reader.choice("format", tuple(DeliveryFormat), default.format)),
        ),
        dead_letter_sink=read_destination(reader, "deadLetterSink"),
    )
    reader.finish()
    return rules


def read_order(annotations: ObjectReader) -> DeliveryOrder | None:
    """The annotation for the order; None if it is absent."""
    text = annotations.choice(ORDER, ("", *DeliveryOrder), "")
    return DeliveryOrder(text) if text else None


def read_concurrency(annotations: ObjectReader) -> int | None:
    """The annotation for the requests in flight; None if it is absent."""
    text = annotations.text(CONCURRENCY)
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= CONCURRENCY_MAX:
        return int(text)
    annotations.problem(
        CONCURRENCY, f"{text[:64]!r} is not a valid number of requests", f'write "1" to "{CONCURRENCY_MAX}"'
    )
    return None


def read_start(annotations: ObjectReader) -> StartPosition:
    """The annotation for the start: latest, earliest or a time."""
    text = annotations.text(START, Start.LATEST)
    if text in tuple(Start):
        return Start(text)
    try:
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        hint = "write earliest, latest or a time such as 2026-01-31T08:00:00Z"
        annotations.problem(START, f"{text[:64]!r} is not a valid start", hint)
        return Start.LATEST
    # To Kafka, negative times mean something else.
    return StartTime(max(0, round(time.timestamp() * 1000)), text)


def read_exhausted(annotations: ObjectReader) -> OnRetriesExhausted:
    """The annotation for events whose retries are used up."""
    choices = tuple(OnRetriesExhausted)
    return OnRetriesExhausted(annotations.choice(EXHAUSTED, choices, OnRetriesExhausted.DEAD_LETTER))


def read_keep_topic(annotations: ObjectReader) -> bool:
    """The annotation that keeps the topics when the resource is deleted."""
    return annotations.choice(KEEP_TOPIC, ("true", "false"), "false") == "true"


def read_hosts(annotations: ObjectReader) -> tuple[str, ...]:
    """The annotation with further host names."""
    hosts = tuple(dict.fromkeys(host.strip().lower() for host in annotations.text(HOSTS).split(",") if host.strip()))
    for host in hosts:
        if not _HOST.fullmatch(host):
            annotations.problem(
                HOSTS, f"{host[:64]!r} is not a valid host name", "separate names by commas, without port or path"
            )
    if len(hosts) > HOSTS_MAX:
        annotations.problem(HOSTS, f"has {len(hosts)} hosts", f"write at most {HOSTS_MAX}")
    return hosts
