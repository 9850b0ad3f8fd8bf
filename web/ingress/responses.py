"""The answers of ingress as values: the table of statuses, with bytes for the hot path and fields for Views. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from knative.cloudevents.http_binding import BadEvent
from knative.ports import ProduceFailure, ProduceProblem
from web.http.headers import ALLOW
from web.http.messages import encode
from web.ingress.channel_resolver import NotFound, NotYet


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. `wire` is all of it as bytes."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    wire: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wire", encode(self.status, self.headers, self.body))


def _json_line(status: int, fields: dict[str, str], *headers: tuple[str, str]) -> Response:
    body = json.dumps(fields).encode() + b"\n"
    return Response(status, body, (("content-type", "application/json"), *headers))


ACCEPTED = Response(202)
NOT_ALLOWED = _json_line(405, {"error": "send events with POST"}, ("allow", ALLOW))
NO_TOKEN = _json_line(
    401,
    {"error": "send a token of PENSTOCK_TOKENS in the header Authorization: Bearer TOKEN"},
    ("www-authenticate", "Bearer"),
)
UNKNOWN_TOKEN = _json_line(
    401, {"error": "the token is not in PENSTOCK_TOKENS"}, ("www-authenticate", 'Bearer error="invalid_token"')
)
OPTIONS = Response(200, b"", (("allow", ALLOW),))
WEBHOOK_OPTIONS = Response(200, b"", (("allow", ALLOW), ("webhook-allowed-origin", "*"), ("webhook-allowed-rate", "*")))


def not_allowed(sender: str, channel: str) -> Response:
    """403: the token is known, and not for this channel or broker."""
    return _json_line(403, {"error": f"the token {sender} may not send to {channel}"})


def bad_event(error: BadEvent) -> Response:
    """400: the event is not valid; with the attribute and the reason."""
    return _json_line(400, {"error": str(error), "attribute": error.attribute})


def too_large(body_bytes: int, most: int) -> Response:
    """413: the body is too large; sent before the event is mapped."""
    return _json_line(413, {"error": f"the body has {body_bytes} bytes; the maximum is {most}"})


def too_busy(reason: str, retry_after_s: int) -> Response:
    """429: a limit of this process is reached."""
    return _json_line(429, {"error": reason}, ("retry-after", str(retry_after_s)))


def not_served(resolved: NotFound | NotYet, retry_after_s: int) -> Response:
    """404, or 503 if it is not known yet."""
    if isinstance(resolved, NotFound):
        return _json_line(404, {"error": resolved.reason})
    return _json_line(503, {"error": resolved.reason}, ("retry-after", str(retry_after_s)))


def not_stored(failure: ProduceFailure, retry_after_s: int) -> Response:
    """Returns the answer for an event that Kafka did not acknowledge: 413, 429 or 503."""
    if failure.problem is ProduceProblem.TOO_LARGE:
        return _json_line(413, {"error": "the event is larger than Kafka accepts"})
    if failure.problem is ProduceProblem.FULL:
        return too_busy("too many events wait for Kafka", retry_after_s)
    return _json_line(
        503, {"error": f"the event was not stored: {failure.problem.value}"}, ("retry-after", str(retry_after_s))
    )
