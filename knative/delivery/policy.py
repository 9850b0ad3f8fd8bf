"""Delivery policy as data: retries, backoff, time limits and dead letter sinks, and the wait before each retry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from knative.backoff import exponential_s
from knative.urls import quoted, shown_url


class DeliveryOrder(StrEnum):
    """What must stay in order: a partition, each record key within a partition, or nothing."""

    ORDERED = "ordered"
    KEY_ORDERED = "key-ordered"
    UNORDERED = "unordered"


class BackoffPolicy(StrEnum):
    """How the wait grows from retry to retry."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"


class DeliveryFormat(StrEnum):
    """How an event is written into a request: attributes as headers, or all of it as one JSON object."""

    BINARY = "binary"
    JSON = "json"


class OnRetriesExhausted(StrEnum):
    """What happens to an event whose retries are used up."""

    DEAD_LETTER = "dead-letter"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Addressable:
    """Where to POST: an absolute http(s) URI, and a PEM bundle to trust for it ("" = the system's)."""

    uri: str
    ca_certs: str = ""

    @property
    def shown_uri(self) -> str:
        """The URI for people: see `knative/urls`."""
        return shown_url(self.uri)


@dataclass(frozen=True, slots=True)
class DeliverySpec:
    """A `delivery` of the Knative API with its defaults. Durations are in seconds."""

    retry: int = 0
    backoff_policy: BackoffPolicy = BackoffPolicy.EXPONENTIAL
    backoff_delay_s: float = 0.2
    timeout_s: float = 300.0
    retry_after_max_s: float | None = None  #: None = honour Retry-After up to the cap; 0 = ignore it
    dead_letter_sink: Addressable | None = None
    format: DeliveryFormat = DeliveryFormat.BINARY


#: The longest valid duration. A longer one is a mistake, not a policy.
DURATION_MAX_S = 100 * 365 * 86_400.0

#: Jitter adds at most this share to a wait. It never shortens a wait.
JITTER_SHARE = 0.1

_DURATION = re.compile(
    r"P(?!$)(?:(?P<years>\d+(?:[.,]\d+)?)Y)?(?:(?P<months>\d+(?:[.,]\d+)?)M)?"
    r"(?:(?P<weeks>\d+(?:[.,]\d+)?)W)?(?:(?P<days>\d+(?:[.,]\d+)?)D)?"
    r"(?:T(?!$)(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?",
    re.ASCII,
)
_UNITS_S = (("weeks", 604_800), ("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


#: The same texts as one pattern, for the API server. It cannot say that they are not longer than `DURATION_MAX_S`.
DURATION_PATTERN = r"P(#W|(nW)?#D|(nW)?(nD)?T(#H|(nH)?#M|(nH)?(nM)?#S))".replace("#", r"[0-9]+([.,][0-9]+)?").replace(
    "n", "[0-9]+"
)
DURATION_CHARS_MAX = 64

#: Found in durations of a millisecond or more: a digit above 0, or one among the first three decimals.
POSITIVE_PATTERN = r"[PWDTHM][0-9]*[1-9]|[.,][0-9]{0,2}[1-9]"
_POSITIVE = re.compile(POSITIVE_PATTERN)


def is_positive(text: str) -> bool:
    """Returns whether a valid duration is at least a millisecond."""
    return _POSITIVE.search(text) is not None


def parse_duration_s(text: str) -> float:
    """Returns the seconds of an ISO-8601 duration such as `PT0.2S`, `PT168H` or `P7D` (a day is 24 hours).

    Raises ValueError with a sentence for anything else. Years and months have no fixed length and are rejected. Only
    the last number may have a fraction, as in the standard.
    """
    match = _DURATION.fullmatch(text) if len(text) <= DURATION_CHARS_MAX else None
    if match is None:
        raise ValueError(f"{quoted(text)} is not a valid ISO-8601 duration; write it like PT0.2S, PT30S, PT10M or P7D")
    if match["years"] or match["months"]:
        raise ValueError(f"{text!r} uses years or months, which have no fixed length; write days (P30D) or hours")
    parts = [(match[unit].replace(",", "."), unit_s) for unit, unit_s in _UNITS_S if match[unit]]
    if any("." in number for number, _ in parts[:-1]):
        raise ValueError(f"{text!r} has a fraction before its last number; only the last number may have one")
    duration_s = float(sum(float(number) * unit_s for number, unit_s in parts))
    if duration_s > DURATION_MAX_S:
        raise ValueError(f"{text!r} is longer than 100 years")
    return duration_s


def delay_s(
    spec: DeliverySpec, n: int, jitter: float, cap_s: float, retry_after_s: float | None, retry_after_cap_s: float
) -> float:
    """Returns the wait before retry `n` (1, 2, ...), in seconds.

    `jitter` is a random number in [0, 1); `cap_s` the longest wait of the policy. `retry_after_s` is what the
    subscriber asked for (None = nothing, or not valid). It is limited to `spec.retry_after_max_s`, or to
    `retry_after_cap_s` if the spec has no maximum. The longer of it and the policy's wait counts.
    """
    assert n >= 1, "the first retry has number 1"
    assert 0.0 <= jitter < 1.0, "jitter is a random number in [0, 1)"
    if spec.backoff_policy is BackoffPolicy.LINEAR:
        wait_s = min(spec.backoff_delay_s * n, cap_s)
    else:
        wait_s = exponential_s(n - 1, spec.backoff_delay_s, cap_s)
    if retry_after_s is not None and retry_after_s > 0:
        wait_s = max(wait_s, min(retry_after_s, retry_after_max_s(spec, retry_after_cap_s)))
    return wait_s * (1.0 + JITTER_SHARE * jitter)


def retry_after_max_s(spec: DeliverySpec, cap_s: float) -> float:
    """Returns the longest Retry-After that counts, in seconds: the spec's maximum, else `cap_s`."""
    return cap_s if spec.retry_after_max_s is None else spec.retry_after_max_s
