"""What a subscriber's answer means: status, headers and body in, a frozen verdict out.

`decide` is the table "what an answer means" of the delivery semantics. The caller acts on the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from knative.cloudevents.http_binding import BadEvent, read_reply
from knative.delivery.policy import DURATION_MAX_S

Pairs = Sequence[tuple[bytes, bytes]]

#: How much of the answer's body a failure keeps. A dead letter quotes 1,024 base64 characters, which is 768 bytes.
#: A failure that waits for its retry must not hold a whole answer in memory.
FAILURE_BODY_BYTES_MAX = 1_024

#: The error code of an attempt that got no answer.
TRANSPORT_ERROR_CODE = 500


#: In the reason of an event that too many replies led to.
REPLY_LOOP = "its Triggers answer each other in a loop"
#: In the reason of an event that was sent to the installation's own addresses too often.
RETURNS = "events come back to where they came from"


class SendProblem(StrEnum):
    """Why an attempt got no answer. The values are texts of reasons, dead letters and spans."""

    CONNECT = "connect"
    READ = "read"  #: the connection was lost, or the answer is not valid or too large
    TIMEOUT = "timeout"
    DNS = "dns"
    TLS = "tls"
    REFUSED = "refused"  #: by the egress guard, or the URI is not valid
    CLOSED = "closed"  #: by us
    GIVEN_UP = "given up"  #: by us, because the subscription has another destination now


_RETRIED_4XX = frozenset((404, 408, 409, 429))
_RETRY_AFTER_CODES = frozenset((429, 503))


@dataclass(frozen=True, slots=True)
class Delivered:
    """The subscriber accepted the event, and nothing remains to be done."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Delivered as soon as this reply (a record's headers, key and value) is accepted by its destination."""

    headers: list[tuple[str, bytes]]
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RetryableFailure:
    """A failed attempt that may be repeated. `body`: the start of the answer, `retry_after`: as received."""

    code: int
    reason: str
    body: bytes = b""
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class FinalFailure:
    """A failed attempt that must not be repeated."""

    code: int
    reason: str
    body: bytes = b""


Verdict = Delivered | Reply | RetryableFailure | FinalFailure

DELIVERED = Delivered()


def decide(status: int, pairs: Pairs | None, body: bytes) -> Verdict:
    """Returns what an answer means. `pairs` are its headers as received (None = it had none)."""
    if status == 202:  # whatever its body: a 202 never carries a reply
        return DELIVERED
    if 200 <= status < 300:
        return _read_event(status, pairs, body) if pairs and may_claim_event(pairs) else DELIVERED
    start = body[:FAILURE_BODY_BYTES_MAX]
    reason = f"the answer was {status}"
    if status in _RETRIED_4XX or 500 <= status < 600:
        return RetryableFailure(status, reason, start, _retry_after(status, pairs))
    if 100 <= status < 500:
        return FinalFailure(status, reason, start)
    return RetryableFailure(status, f"{reason}, which is not a valid HTTP status", start)


def decide_error(problem: SendProblem, message: str) -> RetryableFailure | FinalFailure:
    """Returns what an attempt without an answer means. Only REFUSED is final."""
    reason = f"{problem}: {message}"
    if problem is SendProblem.REFUSED:
        return FinalFailure(TRANSPORT_ERROR_CODE, reason)
    return RetryableFailure(TRANSPORT_ERROR_CODE, reason)


def may_claim_event(pairs: Pairs) -> bool:
    """Returns False if the headers rule out a CloudEvent, as for most answers. Cheap; `read_reply` decides."""
    for name, value in pairs:
        if name[:3].lower() == b"ce-":
            return True
        if len(name) == 12 and name.lower() == b"content-type" and b"cloudevents" in value.lower():
            return True
    return False


def _read_event(status: int, pairs: Pairs, body: bytes) -> Verdict:
    try:
        record = read_reply(pairs, body)
    except BadEvent as error:
        return _unreadable(status, str(error), body)
    if record is None:
        return DELIVERED
    encoding = _first(pairs, b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
        return _unreadable(status, "its body has a content-encoding, which the request did not accept", body)
    return Reply(*record)


def _unreadable(status: int, fault: str, body: bytes) -> RetryableFailure:
    return RetryableFailure(
        status,
        f"the answer was {status} with an event that cannot be read: {fault}",
        body[:FAILURE_BODY_BYTES_MAX],
    )


def _retry_after(status: int, pairs: Pairs | None) -> str | None:
    if status not in _RETRY_AFTER_CODES or not pairs:
        return None
    value = _first(pairs, b"retry-after")
    return None if value is None else value[:64].decode("latin-1")


def _first(pairs: Pairs, header: bytes) -> bytes | None:
    for name, value in pairs:
        if name.lower() == header:
            return value
    return None


_MONTHS = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
#: The three formats of an HTTP-date (RFC 9110, 5.6.7). The standard library's mail date parser accepts far more.
_HTTP_DATES = tuple(
    re.compile(shape, re.ASCII)
    for shape in (
        rf"[A-Z][a-z]{{2}}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"[A-Z][a-z]{{5,8}}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",
        rf"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
_seconds = re.compile(r"\d+", re.ASCII).fullmatch


def retry_after_s(value: str | None, now_unix: float) -> float | None:
    """Returns the wait of a Retry-After (seconds or HTTP-date) in seconds, at most DURATION_MAX_S; None if not valid.

    A date in the past is 0.0. A negative number is not valid.
    """
    text = (value or "").strip(" \t")
    if _seconds(text):
        digits = text.lstrip("0") or "0"
        return min(float(digits), DURATION_MAX_S) if len(digits) < 16 else DURATION_MAX_S
    for shape in _HTTP_DATES:
        match = shape.fullmatch(text)
        if match:
            at = _unix_time(match, now_unix)
            return None if at is None else min(max(0.0, at - now_unix), DURATION_MAX_S)
    return None


def _unix_time(match: re.Match[str], now_unix: float) -> float | None:
    year, day, hour, minute, second = (int(match[part]) for part in ("year", "day", "hour", "minute", "second"))
    month = _MONTHS.index(match["month"]) + 1
    if len(match["year"]) == 2:
        # A two-digit year more than 50 years ahead means the latest past year with these digits (RFC 9110).
        this_year = datetime.fromtimestamp(now_unix, UTC).year
        year += this_year - this_year % 100
        if year > this_year + 50:
            year -= 100
    try:
        # `datetime` does not support leap seconds: use the second before.
        return datetime(
            year,
            month,
            day,
            hour,
            minute,
            min(second, 59) if second == 60 else second,
            tzinfo=UTC,
        ).timestamp()
    except ValueError:
        return None
