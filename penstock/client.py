"""Sends CloudEvents to a channel or broker, and repeats a request until the event is stored."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cloudevents.core.base import BaseCloudEvent
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_result, stop_before_delay

from knative.delivery.policy import DeliverySpec, delay_s
from knative.delivery.verdicts import retry_after_s
from knative.errors import NotReadyError, PenstockError, UsageError
from knative.urls import quoted
from penstock.events import Data, as_event, to_message

if TYPE_CHECKING:
    import aiohttp

ACCEPTED = 202
#: Answers after which the same request may be accepted later; so may one without an answer, and any 5xx.
_TRY_AGAIN = frozenset((408, 429))
_BACKOFF = DeliverySpec(backoff_delay_s=0.2)
_LONGEST_WAIT_S = 30.0
_LIKE = "Write it like http://localhost:8080/channels/ns/name."
_FIXES = {
    400: "Correct the event.",
    401: "Give the client a token that the ingress accepts: token=...",
    403: "Use a token that may send to this channel or broker.",
    404: "`penstock status` lists channels and brokers.",
    413: "Send less data, or send a reference to the data.",
}


class NotStoredError(PenstockError):
    """The event was not stored. `event`: the event; `status`: of the last answer (0 = none); `tries`: requests made;
    `stored`: of `send_many`, the events before it, which are stored."""

    def __init__(self, event: Any, answer: Answer, tries: int, address: str) -> None:
        again = "Check that the worker runs, and send the same event again." if answer.again else "Check the URL."
        said = f"answered {answer.status}" if answer.status else "did not answer"
        reason = f" ({answer.reason})" if answer.reason else ""
        super().__init__(
            f"The event {event.get_id()!r} was not stored: {address} {said}{reason}, request {tries}.",
            _FIXES.get(answer.status, again),
        )
        self.event = event
        self.status = answer.status
        self.tries = tries
        self.stored: list[Stored] = []


class NoAnswerError(NotReadyError):
    """One request got no answer."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was stored. `tries`: requests made; with more than one, the event may be stored twice."""

    id: str
    source: str
    type: str
    tries: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    status: int  #: 0 = there was none
    reason: str = ""
    retry_after: str | None = None

    @property
    def again(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.status == 0 or self.status in _TRY_AGAIN or 500 <= self.status < 600

    def wait_s(self, tries: int, jitter: float, now: float) -> float:
        """Seconds until the next request. `jitter` in [0, 1); `now`: Unix seconds."""
        asked = retry_after_s(self.retry_after, now)
        return delay_s(_BACKOFF, tries, jitter, _LONGEST_WAIT_S, asked, _LONGEST_WAIT_S)


class Client:
    """Sends CloudEvents to one URL. Use it in a `with` block, or in `async with` for the methods that end in `_async`.

    408, 429, 5xx and no answer: the same request again, after a wait that doubles from 0.2 s to 30 s, or what
    `Retry-After` asks for, until `limit_s` has passed. Every other answer raises NotStoredError at once. A repeated
    event has the same `id`. Not to be shared by threads.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        limit_s: float = 60.0,
        timeout_s: float = 30.0,
    ) -> None:
        """`url`: of a channel or broker; `token`: a bearer token; `ca`: a PEM file to trust in place of the system's;
        `limit_s`: no request is repeated after this time; `timeout_s`: of one request. Raises UsageError."""
        self._secure, self.address, self._path = _parts(url)
        self._url = url
        self._headers = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        self._limit_s, self._timeout_s = limit_s, timeout_s
        try:
            self._tls = ssl.create_default_context(cafile=ca) if self._secure else None
        except OSError as problem:
            raise UsageError(f"{ca} is not a readable PEM file ({problem}).", "Check ca=...") from None
        self._connection: http.client.HTTPConnection | None = None
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def channel(cls, server: str, name: str, **options: Any) -> Client:
        """A client for the channel NAMESPACE/NAME; `server`: the URL of a worker."""
        return cls(address_of("channel", name, server), **options)

    @classmethod
    def broker(cls, server: str, name: str, **options: Any) -> Client:
        """The same for a broker."""
        return cls(address_of("broker", name, server), **options)

    def send(
        self, event: BaseCloudEvent | Mapping[str, Any] | None = None, /, *, data: Data = None, **attributes: Any
    ) -> Stored:
        """Send one event: attributes as keyword arguments or as a mapping, or an object of the CloudEvents SDK.

        Returns when Kafka has acknowledged it. Raises NotStoredError, or UsageError if it is not a valid event.
        """
        made = as_event(event, data, attributes)
        message = to_message(made)
        retrying = Retrying(**self._rule())
        answer: Answer = retrying(self._try, *message)
        return self._stored(made, answer, retrying.statistics["attempt_number"])

    def send_many(self, events: Iterable[BaseCloudEvent | Mapping[str, Any]]) -> list[Stored]:
        """Send events one after the other, so that they stay in order. NotStoredError says which were stored before."""
        stored: list[Stored] = []
        for event in events:
            try:
                stored.append(self.send(event))
            except NotStoredError as problem:
                problem.stored = stored
                raise
        return stored

    async def send_async(
        self, event: BaseCloudEvent | Mapping[str, Any] | None = None, /, *, data: Data = None, **attributes: Any
    ) -> Stored:
        """As `send`."""
        made = as_event(event, data, attributes)
        message = to_message(made)
        retrying = AsyncRetrying(**self._rule())
        answer: Answer = await retrying(self._try_async, *message)
        return self._stored(made, answer, retrying.statistics["attempt_number"])

    async def send_many_async(self, events: Iterable[BaseCloudEvent | Mapping[str, Any]]) -> list[Stored]:
        """As `send_many`."""
        stored: list[Stored] = []
        for event in events:
            try:
                stored.append(await self.send_async(event))
            except NotStoredError as problem:
                problem.stored = stored
                raise
        return stored

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. Raises NoAnswerError, or UsageError for a header that HTTP does not allow and for a certificate
        that is not trusted."""
        connection = self._connection = self._connection or self._connect()
        try:
            connection.request("POST", self._path, body, {**headers, **self._headers})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answer(answer.status, reason_of(text), answer.getheader("retry-after"))
        except ssl.SSLCertVerificationError as problem:
            raise self._untrusted(problem.verify_message) from None
        except TimeoutError as problem:
            self.close()
            raise self._no_answer(f"{self.address} did not answer within {self._timeout_s:.0f} s") from problem
        except (http.client.InvalidURL, ValueError):  # the reason would quote a header, which may be a token
            self.close()
            raise self._not_http() from None
        except (OSError, http.client.HTTPException) as problem:
            self.close()  # a connection that the server has closed is not used again
            raise self._no_answer(f"No worker answers at {self.address} ({_why(problem)})") from problem

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def aclose(self) -> None:
        """Close the connections of the methods that end in `_async`."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self.address, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(self.address, timeout=self._timeout_s)

    def _rule(self) -> dict[str, Any]:
        def wait_s(state: RetryCallState) -> float:
            return _answer(state).wait_s(state.attempt_number, random.random(), time.time())

        return {
            "retry": retry_if_result(lambda answer: answer.again),
            "stop": stop_before_delay(self._limit_s),
            "wait": wait_s,
            "retry_error_callback": _answer,
        }

    def _try(self, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            return self.post(headers, body)
        except NoAnswerError as problem:
            return Answer(0, problem.what)

    async def _try_async(self, headers: Mapping[str, str], body: bytes) -> Answer:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._timeout_s))
        try:
            async with self._session.post(
                self._url, data=body, headers={**headers, **self._headers}, ssl=self._tls or True
            ) as answer:
                text = (await answer.read()).decode("utf-8", "replace")
                return Answer(answer.status, reason_of(text), answer.headers.get("retry-after"))
        except aiohttp.ClientConnectorCertificateError as problem:
            raise self._untrusted(str(problem.certificate_error)) from None
        except (aiohttp.InvalidURL, ValueError):
            raise self._not_http() from None
        except (aiohttp.ClientError, OSError) as problem:
            return Answer(0, _why(problem))

    def _stored(self, event: Any, answer: Answer, tries: int) -> Stored:
        if answer.status != ACCEPTED:
            raise NotStoredError(event, answer, tries, self.address)
        return Stored(event.get_id(), event.get_source(), event.get_type(), tries)

    def _no_answer(self, what: str) -> NoAnswerError:
        return NoAnswerError(
            f"{what}.", "Start a worker with `penstock up`, or name the address of a worker that runs."
        )

    @staticmethod
    def _not_http() -> UsageError:
        return UsageError("A header or the path has a character that HTTP does not allow.", "Correct it.")

    def _untrusted(self, why: str) -> UsageError:
        self.close()
        return UsageError(
            f"The certificate of {self.address} is not trusted ({why}).", "Name the CA of the certificate: ca=..."
        )


def address_of(kind: str, name: str, server: str) -> str:
    """The URL of the channel or broker (`kind`) NAMESPACE/NAME at a worker. Raises UsageError.

    >>> address_of("channel", "default/orders", "localhost:8080")
    'http://localhost:8080/channels/default/orders'
    """
    namespace, slash, last = name.partition("/")
    if not (slash and namespace and last) or "/" in last:
        raise UsageError(f"{name!r} is not a valid {kind} name.", "Write NAMESPACE/NAME, such as default/quickstart.")
    server = server if "://" in server else f"http://{server}"
    return f"{server.rstrip('/')}/{kind}s/{namespace}/{last}"


def reason_of(body: str) -> str:
    """The sentence in an answer of Penstock, which is `{"error": ...}`; any other answer unchanged."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.strip()


def _parts(url: str) -> tuple[bool, str, str]:
    """Whether it is https, host[:port], and the path with its query. Raises UsageError."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises ValueError
    except ValueError as problem:
        raise UsageError(f"{quoted(url)} is not a valid URL: {problem}.", _LIKE) from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"{quoted(url)} is not a valid URL.", _LIKE)
    if "@" in parts.netloc:
        raise UsageError("The URL has a user or a password, which an ingress does not read.", _LIKE)
    return parts.scheme == "https", parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _answer(state: RetryCallState) -> Answer:
    assert state.outcome is not None
    answer: Answer = state.outcome.result()
    return answer


def _why(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
