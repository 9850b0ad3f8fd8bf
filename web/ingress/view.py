"""The ingress view: an HTTP request in, a record in the channel's topic, 202 only after Kafka has acknowledged it.

    request -> which channel (web/routing) -> is there room -> event to record (knative/http_binding)
            -> Produce port ... acknowledged -> 202

The first way, `post_raw`, runs in callbacks on `web/http/driver`; the second, `post`, is an ordinary Faust View for any
driver. Both take the same decisions. Refuses to parse bodies, to answer before the acknowledgement, and to hold more
requests or bytes than its limits say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from faust.web import View

from knative.cloudevents.http_binding import BadEvent, to_record
from knative.contract.records import Channel
from knative.ports import Headers, Observe, Produce, ProduceFailure
from knative.traffic.counters import TrafficCounter, TrafficCounters
from web.http import headers as heads
from web.http.config import HttpRejection
from web.http.connection import Connection
from web.http.headers import Fields
from web.http.messages import Request
from web.ingress import responses
from web.ingress.channel_resolver import ChannelResolver, ContractView, NotFound, NotYet, split_path
from web.ingress.responses import Response

#: Everything that no other View serves: ingress knows best how to say what it takes.
PATH = "/{path:.*}"
_CACHE_MAX = 4096
_ELSEWHERE = "this process takes no events in: send it to one whose PENSTOCK_ROLE is ingress or all"
_ACCEPTED_WIRE = responses.ACCEPTED.wire


@dataclass(frozen=True, slots=True)
class IngressConfig:
    """Limits of the ingress of one process."""

    inflight_max: int = 10_000  #: requests waiting for Kafka; over it 429
    bytes_max: int = 64 * 1024 * 1024  #: of their heads and bodies; over it 429
    event_bytes_max: int = 1024 * 1024  #: one body; over it 413
    retry_after_s: int = 1  #: `Retry-After` of 429 and 503
    takes_events: bool = True  #: False: another process does, and what is known is answered 503


class Ingress:
    """What both ways share: addresses, room, and the words of the answers. Event loop only."""

    def __init__(
        self,
        config: IngressConfig,
        contract: ContractView,
        produce: Produce,
        observe: Observe,
        counters: TrafficCounters | None = None,
    ) -> None:
        """`counters` None: what is accepted is not summed up."""
        self.config = config
        self.produce = produce
        self.observe = observe
        self.inflight = 0  #: requests waiting for Kafka
        self.inflight_bytes = 0  #: of their heads and bodies
        self.counters = counters
        self._counted: dict[str, TrafficCounter] = {}  # channel uid -> where its events are counted
        self._contract = contract
        self._routes = ChannelResolver(())
        self.cache: dict[tuple[bytes, bytes | None], Channel] = {}  #: (target, Host) -> channel
        self._contract_changed()
        contract.on_change(self._contract_changed)

    def _contract_changed(self) -> None:
        self._routes = ChannelResolver(self._contract.channels.values(), self._contract.loaded)
        self.cache.clear()
        for uid in self._counted.keys() - self._contract.channels.keys():
            self._counted.pop(uid).close()

    def counter(self, counters: TrafficCounters, channel: Channel) -> TrafficCounter:
        """Where the events of a channel are counted."""
        found = self._counted.get(channel.uid)
        if found is None:
            found = self._counted[channel.uid] = counters.channel(channel.namespace, channel.name)
        return found

    def channel(self, target: bytes, host: bytes | None) -> Channel | Response:
        """The channel a URL names, or the answer that says why none."""
        found = self.cache.get((target, host))
        if found is not None:
            return found
        resolved = self._routes.resolve(host, target.partition(b"?")[0])
        if isinstance(resolved, Channel) and not self.config.takes_events:
            resolved = NotYet(_ELSEWHERE)
        if not isinstance(resolved, Channel):
            return responses.not_served(resolved, self.config.retry_after_s)
        if len(self.cache) >= _CACHE_MAX:
            self.cache.clear()
        self.cache[target, host] = resolved
        return resolved

    def room(self, head_bytes: int, body_bytes: int) -> Response | None:
        """None when one more event of this size may wait, else the answer that says why not."""
        config = self.config
        if body_bytes > config.event_bytes_max:
            return responses.too_large(body_bytes, config.event_bytes_max)
        if self.inflight >= config.inflight_max or self.inflight_bytes + head_bytes + body_bytes > config.bytes_max:
            return responses.too_busy("too many events wait for Kafka", config.retry_after_s)
        return None

    def other(self, method: str, target: bytes, host: bytes | None, headers: Mapping[str, str]) -> Response:
        """The answer to everything but POST."""
        path = target.partition(b"?")[0]
        if split_path(path) is None:
            return responses.not_served(self._unserved(host, path), self.config.retry_after_s)
        if method != "OPTIONS" and (method != "GET" or headers.get("k-network-probe") != "probe"):
            return responses.NOT_ALLOWED
        found = self.channel(target, host)
        if isinstance(found, Response):
            return found
        if method == "OPTIONS":
            return responses.WEBHOOK_OPTIONS if "webhook-request-origin" in headers else responses.OPTIONS
        echo = headers.get("k-network-hash")
        return Response(200, b"", (("k-network-hash", echo),) if echo is not None else ())

    def _unserved(self, host: bytes | None, path: bytes) -> NotFound:
        found = self._routes.resolve(host, path)
        return found if isinstance(found, NotFound) else NotFound("nothing is served under this path")


class IngressView(View):
    """Bound to one `Ingress` by `register`."""

    ingress: Ingress
    allow = heads.ALLOW

    def __post_init__(self) -> None:
        if hasattr(self.web, "on_refused"):
            self.web.on_refused = self.ingress.observe.request

    def get_methods(self) -> set[str]:
        """All that Faust knows: what is not POST is answered here too."""
        return {name.upper() for name in self.methods}

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def post_raw(
        self, conn: Connection, target: bytes, info: Mapping[str, str], fields: Fields, body: bytes | None, keep: bool
    ) -> None:
        """One event, without a Task and without a Future."""
        ingress = self.ingress
        channel: Channel | Response | None = ingress.cache.get((target, conn.host))
        if channel is None:
            channel = ingress.channel(target, conn.host)
        if isinstance(channel, Response):
            return self._finish(conn, channel, keep)
        body_bytes = len(body) if body else 0
        refused = ingress.room(conn.head_bytes, body_bytes)
        if refused is not None:
            return self._finish(conn, refused, keep)
        try:
            headers, key, value = to_record(fields, body)
        except BadEvent as error:
            return self._finish(conn, responses.bad_event(error), keep)
        event_bytes = conn.head_bytes + body_bytes
        ingress.inflight += 1
        ingress.inflight_bytes += event_bytes
        counted = None
        if ingress.counters is not None:
            counted = (ingress.counter(ingress.counters, channel), headers, len(value) if value else 0)
        ingress.produce.send(
            channel.topic, value, key, headers, partial(self._stored, conn, keep, event_bytes, counted)
        )
        return None

    def _stored(
        self,
        conn: Connection,
        keep: bool,
        event_bytes: int,
        counted: tuple[TrafficCounter, Headers, int] | None,
        failure: ProduceFailure | None,
    ) -> None:
        ingress = self.ingress
        ingress.inflight -= 1
        ingress.inflight_bytes -= event_bytes
        if failure is None:
            if counted is not None:
                counter, headers, size = counted
                counter.accepted(headers, size)
            ingress.observe.request(202)
            conn.finish(_ACCEPTED_WIRE, keep)
        else:
            self._finish(conn, responses.not_stored(failure, ingress.config.retry_after_s), keep)

    def _finish(self, conn: Connection, answer: Response, keep: bool) -> None:
        self.ingress.observe.request(answer.status)
        conn.finish(answer.wire, keep)

    # -- coroutines ----------------------------------------------------------------------------------------------------

    async def post(self, request: Any, **info: str) -> Any:
        """One event, on any driver."""
        return self._respond(await self._event(request))

    async def _event(self, request: Any) -> Response:
        ingress = self.ingress
        channel = ingress.channel(_raw_path(request), _raw_host(request))
        if isinstance(channel, Response):
            return channel
        refused = _refused_head(request)
        if refused is not None:
            return refused
        head_bytes = sum(len(name) + len(value) for name, value in request.raw_headers)
        length = request.headers.get("content-length")
        refused = ingress.room(head_bytes, int(length) if length and length.isdigit() else 0)
        if refused is not None:
            return refused
        body: bytes = await request.read()
        framed = length is not None or "transfer-encoding" in request.headers
        refused = ingress.room(head_bytes, len(body))
        if refused is not None:
            return refused
        try:
            headers, key, value = to_record(request.raw_headers, body if framed else None)
        except BadEvent as error:
            return responses.bad_event(error)
        failure = await self._store(channel, value, key, headers, head_bytes + len(body))
        return responses.ACCEPTED if failure is None else responses.not_stored(failure, ingress.config.retry_after_s)

    async def _store(
        self, channel: Channel, value: bytes | None, key: bytes | None, headers: Headers, event_bytes: int
    ) -> ProduceFailure | None:
        ingress = self.ingress
        stored: asyncio.Future[ProduceFailure | None] = asyncio.get_running_loop().create_future()

        def done(failure: ProduceFailure | None) -> None:
            ingress.inflight -= 1
            ingress.inflight_bytes -= event_bytes
            if failure is None and ingress.counters is not None:
                ingress.counter(ingress.counters, channel).accepted(headers, len(value or b""))
            if not stored.done():  # it is, when the client has gone
                stored.set_result(failure)

        ingress.inflight += 1
        ingress.inflight_bytes += event_bytes
        ingress.produce.send(channel.topic, value, key, headers, done)
        return await stored

    async def get(self, request: Any, **info: str) -> Any:
        """405, or the network probe of Knative's activator."""
        refused = _refused_head(request)
        if refused is not None:
            return self._respond(refused)
        answer = self.ingress.other(request.method, _raw_path(request), _raw_host(request), request.headers)
        return self._respond(answer)

    head = put = patch = delete = options = search = get

    def _respond(self, answer: Response) -> Any:
        self.ingress.observe.request(answer.status)
        return self.bytes(answer.body, status=answer.status, headers=dict(answer.headers))


def _refused_head(request: Any) -> Response | None:
    """For what is not HTTP's plain text and body. Our own driver has refused it before; another one may not."""
    try:
        heads.check_text(request.raw_headers)
    except HttpRejection as refusal:
        return responses.malformed(refusal.reason)
    for name, good in (("content-encoding", ("", "identity")), ("transfer-encoding", ("chunked",))):
        if any(value.lower() not in good for value in request.headers.getall(name, ())):
            return responses.CODED
    return None


def _raw_path(request: Any) -> bytes:
    path: str = request.rel_url.raw_path
    return path.encode("latin-1", "replace")


def _raw_host(request: Any) -> bytes | None:
    """The host that a request is for: of a target in absolute form, else of the Host header."""
    if isinstance(request, Request):
        return request.raw_host
    # aiohttp gives this machine's name where there is neither; nobody asked for that one.
    return request.host.encode("latin-1", "replace") if "host" in request.headers else None


def register(
    app: Any,
    config: IngressConfig,
    contract: ContractView,
    produce: Produce,
    observe: Observe,
    view: type[IngressView] = IngressView,
    counters: TrafficCounters | None = None,
) -> Ingress:
    """Serve ingress on a Faust app, under every path no other View has. Returns its state (for drains and metrics)."""
    ingress = Ingress(config, contract, produce, observe, counters)
    bound = type("BoundIngressView", (view,), {"ingress": ingress})
    app.page(PATH, name="ingress")(bound)
    return ingress
