"""The ingress view: stores the event of a request in its channel's topic, and answers 202 after Kafka acknowledged it.

    request -> channel (channel_resolver) -> within limits? -> event to record (knative/cloudevents/http_binding)
            -> Produce port ... acknowledged -> 202

`post_raw` runs in callbacks on `web/http/driver`; all other methods are those of an ordinary Faust View. Never answers
202 before the acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from faust.web import View

from knative import memo
from knative.cloudevents.http_binding import BadEvent, Record, to_record
from knative.cloudevents.record_plan import RecordPlan, planned
from knative.contract.records import Channel
from knative.ports import Headers, Observe, Produce, ProduceFailure
from knative.traffic.counters import TrafficCounter, TrafficCounters
from web.http.connection import Connection
from web.http.headers import ALLOW
from web.http.raw_request import RawRequest
from web.ingress import responses
from web.ingress.admission import Admission, authorization
from web.ingress.channel_resolver import ChannelResolver, ContractView, NotFound, NotYet, split_path
from web.ingress.responses import Response

#: All paths that no other View serves: the answers of ingress explain which URLs accept events.
PATH = "/{path:.*}"
_NO_SECRETS = "this process cannot use the Kafka secrets of Brokers"
#: From the reference of a Secret to its producer, or to the reason why there is none.
OwnProducer = Callable[[str], Produce | str]
_ELSEWHERE = "this process does not accept events; send events to a process whose PENSTOCK_ROLE is ingress or all"


@dataclass(frozen=True, slots=True)
class IngressConfig:
    """Limits of the ingress of one process."""

    inflight_max: int = 10_000  #: requests waiting for Kafka; above it 429
    bytes_max: int = 64 * 1024 * 1024  #: of their heads and bodies; above it 429
    event_bytes_max: int = 1024 * 1024  #: one body; above it 413
    retry_after_s: int = 1  #: `Retry-After` of 429 and 503
    takes_events: bool = True  #: False: only other processes accept events, and known channels are answered with 503


class Ingress:
    """Addresses, limits and answers. Event loop only."""

    def __init__(
        self,
        config: IngressConfig,
        contract: ContractView,
        produce: Produce,
        observe: Observe,
        counters: TrafficCounters | None = None,
        admission: Admission | None = None,
        own_producer: OwnProducer | None = None,
    ) -> None:
        """`counters` None: accepted events are not counted. `admission` None: everybody may send. `own_producer`: for
        Brokers with a Secret of their own."""
        self.config = config
        self._own_producer = own_producer
        self.admission = admission
        self.produce = produce
        self.observe = observe
        self.inflight = 0  #: requests waiting for Kafka
        self.inflight_bytes = 0  #: of their heads and bodies
        self.counters = counters
        self.counted: dict[str, TrafficCounter] = {}  #: channel uid -> its counter
        self._contract = contract
        self._routes = ChannelResolver(())
        self.cache: dict[tuple[bytes, bytes | None], Channel] = {}  #: (target, Host) -> channel
        self._contract_changed()
        contract.on_change(self._contract_changed)

    def _contract_changed(self) -> None:
        self._routes = ChannelResolver(self._contract.channels.values(), self._contract.loaded)
        self.cache.clear()
        for uid in self.counted.keys() - self._contract.channels.keys():
            self.counted.pop(uid).close()

    def counter(self, channel: Channel) -> TrafficCounter | None:
        """Returns the counter for the events of a channel that has none yet; None if events are not counted."""
        if self.counters is None:
            return None
        counter = self.counted[channel.uid] = self.counters.channel(channel.namespace, channel.unique_name)
        return counter

    def channel(self, target: bytes, host: bytes | None) -> Channel | Response:
        """Returns the channel of a URL, or the answer that says why there is none."""
        channel = self.cache.get((target, host))
        if channel is not None:
            return channel
        resolved = self._routes.resolve(host, target.partition(b"?")[0])
        if isinstance(resolved, Channel) and not self.config.takes_events:
            resolved = NotYet(_ELSEWHERE)
        if not isinstance(resolved, Channel):
            return responses.not_served(resolved, self.config.retry_after_s)
        if len(target) <= memo.ENTRY_BYTES_MAX:  # a longer one has a query, which may be another one each time
            memo.put(self.cache, (target, host), resolved)
        return resolved

    def producer(self, secret: str) -> Produce | Response:
        """Returns the producer of a Broker with a Secret of its own, or the answer that says why there is none."""
        producer = _NO_SECRETS if self._own_producer is None else self._own_producer(secret)
        if isinstance(producer, str):
            return responses.not_served(NotYet(producer), self.config.retry_after_s)
        return producer

    def refuse_sender(self, admission: Admission, request: RawRequest, address: str) -> Response | None:
        """Returns the answer to a sender that may not send here. An event of an unknown one is refused before its
        channel is looked up. `address`: the client's."""
        sender = admission.sender(authorization(request.pairs()), address)
        if isinstance(sender, Response):
            return sender
        channel = self.channel(request.target, request.host)
        return channel if isinstance(channel, Response) else admission.refuse(sender, channel)

    def reject_over_limit(self, head_bytes: int, body_bytes: int) -> Response | None:
        """Returns the answer to an event that exceeds a limit; None if an event of this size may wait for Kafka."""
        config = self.config
        if body_bytes > config.event_bytes_max:
            return responses.too_large(body_bytes, config.event_bytes_max)
        if self.inflight >= config.inflight_max or self.inflight_bytes + head_bytes + body_bytes > config.bytes_max:
            return responses.too_busy("too many events wait for Kafka", config.retry_after_s)
        return None

    def answer_other_method(
        self, method: str, target: bytes, host: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        """Returns the answer to everything but POST."""
        path = target.partition(b"?")[0]
        if split_path(path) is None:
            return responses.not_served(self._unserved(host, path), self.config.retry_after_s)
        if method != "OPTIONS" and (method != "GET" or headers.get("k-network-probe") != "probe"):
            return responses.NOT_ALLOWED
        channel = self.channel(target, host)
        if isinstance(channel, Response):
            return channel
        if method == "OPTIONS":
            return responses.WEBHOOK_OPTIONS if "webhook-request-origin" in headers else responses.OPTIONS
        echo = headers.get("k-network-hash")
        return Response(200, b"", (("k-network-hash", echo),) if echo is not None else ())

    def _unserved(self, host: bytes | None, path: bytes) -> NotFound:
        match = self._routes.resolve(host, path)
        return match if isinstance(match, NotFound) else NotFound("nothing is served under this path")


class IngressView(View):
    """Bound to one `Ingress` by `register`."""

    ingress: Ingress
    allow = ALLOW

    def __post_init__(self) -> None:
        web: Any = self.web
        web.on_refused = self.ingress.observe.request

    def get_methods(self) -> set[str]:
        """Returns all methods that Faust knows: this view also answers requests that are not POST."""
        return {name.upper() for name in self.methods}

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def post_raw(self, conn: Connection, info: Mapping[str, str], request: RawRequest) -> None:
        """Answers one event, without a Task and without a Future."""
        ingress = self.ingress
        target, host, body, keep = request.target, request.host, request.body, request.keep
        if ingress.admission is not None:
            refused = ingress.refuse_sender(ingress.admission, request, conn.address)
            if refused is not None:
                return self._finish(conn, refused, keep)
        channel = ingress.cache.get((target, host))
        if channel is None:
            resolved = ingress.channel(target, host)
            if isinstance(resolved, Response):
                return self._finish(conn, resolved, keep)
            channel = resolved
        produce = ingress.produce
        if channel.secret:
            own = ingress.producer(channel.secret)
            if isinstance(own, Response):
                return self._finish(conn, own, keep)
            produce = own
        body_bytes = len(body) if body else 0
        refused = ingress.reject_over_limit(request.head_bytes, body_bytes)
        if refused is not None:
            return self._finish(conn, refused, keep)
        try:
            headers, key, value = record_of(request)
        except BadEvent as error:
            return self._finish(conn, responses.bad_event(error), keep)
        event_bytes = request.head_bytes + body_bytes
        # Counted before `send`, which may call `_stored` at once when the producer rejects the record.
        ingress.inflight += 1
        ingress.inflight_bytes += event_bytes
        counter = ingress.counted.get(channel.uid) or ingress.counter(channel)
        size = len(value) if value else 0
        produce.send(
            channel.topic, value, key, headers, partial(self._stored, conn, keep, event_bytes, counter, headers, size)
        )
        return None

    def _stored(
        self,
        conn: Connection,
        keep: bool,
        event_bytes: int,
        counter: TrafficCounter | None,
        headers: Headers,
        size: int,
        failure: ProduceFailure | None,
    ) -> None:
        ingress = self.ingress
        ingress.inflight -= 1
        ingress.inflight_bytes -= event_bytes
        if failure is None:
            if counter is not None:
                counter.accepted(headers, size)
            self._finish(conn, responses.ACCEPTED, keep)
        else:
            self._finish(conn, responses.not_stored(failure, ingress.config.retry_after_s), keep)

    def _finish(self, conn: Connection, answer: Response, keep: bool) -> None:
        """Every answer of `post_raw` goes this way, once for each request."""
        self.ingress.observe.request(answer.status)
        conn.finish(answer.wire, keep)

    async def get(self, request: Any, **info: str) -> Any:
        """Answers OPTIONS and the network probe of Knative's activator, and answers 405 to anything else."""
        target = request.raw_path.encode("latin-1", "replace")
        answer = self.ingress.answer_other_method(request.method, target, request.raw_host, request.headers)
        self.ingress.observe.request(answer.status)
        return self.bytes(answer.body, status=answer.status, headers=dict(answer.headers))

    head = put = patch = delete = options = search = get


def record_of(request: RawRequest) -> Record:
    """Returns the record of a request's event. Raises BadEvent."""
    plan, record = request.plan, None
    if plan is not None and isinstance(plan.derived, RecordPlan):
        record = plan.derived.record(request.values, request.is_plain, request.body)
    elif plan is not None and plan.derived is None:
        record, plan.derived = planned(request.pairs(), plan.varying, request.body)
    return to_record(request.pairs(), request.body) if record is None else record


def register(
    app: Any,
    config: IngressConfig,
    contract: ContractView,
    produce: Produce,
    observe: Observe,
    view: type[IngressView] = IngressView,
    counters: TrafficCounters | None = None,
    admission: Admission | None = None,
    own_producer: OwnProducer | None = None,
) -> Ingress:
    """Serve ingress on a Faust app, under all paths of no other View. Returns its state, for drains and metrics."""
    ingress = Ingress(config, contract, produce, observe, counters, admission, own_producer)
    bound = type("BoundIngressView", (view,), {"ingress": ingress})
    app.page(PATH, name="ingress")(bound)
    return ingress
