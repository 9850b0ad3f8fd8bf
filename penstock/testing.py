"""A broker in memory, for unit tests of handlers: what Penstock does with their answers, without Kafka and HTTP.

>>> from penstock import testing
>>> broker = testing.Broker()
>>> seen = []
>>> def handler(event):
...     seen.append(event.get_id())
...     if seen.count("a") < 3:
...         raise TimeoutError("the database is away")
>>> trigger = broker.subscribe(handler, filter="type = 'order.created'", retry=5, backoff_delay="PT1S")
>>> _ = broker.send(id="a", type="order.created", source="/shop")
>>> _ = broker.send(id="b", type="order.created", source="/shop")
>>> _ = broker.send(id="c", type="order.paid", source="/shop")
>>> broker.run()
>>> seen
['a', 'a', 'a', 'b']
>>> [(attempt.event_id, attempt.status, round(attempt.at_s)) for attempt in trigger.attempts]
[('a', 500, 0), ('a', 500, 1), ('a', 204, 3), ('b', 204, 3)]
>>> trigger.settled
{'c': 'filtered', 'a': 'delivered', 'b': 'delivered'}

The scheduler, the filters, the retries, the replies and the dead letters are those of a worker. Only the topic and the
requests are in memory, and time is virtual: a wait of an hour takes no time, and neither does `asyncio.sleep` in a
handler. A handler must not wait for anything real, such as a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from cloudevents.core.base import BaseCloudEvent

from knative import cesql
from knative.cloudevents.attributes import BadEvent
from knative.cloudevents.http_binding import to_record
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable, BackoffPolicy, DeliveryOrder, DeliverySpec, parse_duration_s
from knative.errors import UsageError
from knative.filters import ALL_EVENTS
from knative.filters.dialects import Cesql
from penstock.events import Data, as_event, to_message
from penstock.memory import DLQ_TOPIC, TOPIC, Attempt, Topic, Trigger
from penstock.subscriber import Handler, Subscriber

__all__ = ["Attempt", "Broker", "Trigger"]

_LIMIT_S = 365 * 86_400.0


class Broker:
    """A broker with one partition. It has an event loop of its own: call it from tests that are not async."""

    def __init__(self) -> None:
        self._topic = Topic()

    @property
    def events(self) -> list[BaseCloudEvent]:
        """All events that were stored, replies too."""
        return self._topic.events

    @property
    def dead_letters(self) -> list[BaseCloudEvent]:
        """Dead letters, with `knativeerrordest`, `knativeerrorcode` and `knativeerrordata`."""
        return self._topic.dead_letters

    @property
    def now_s(self) -> float:
        """Virtual seconds since the broker was made."""
        return self._topic.monotonic()

    def subscribe(
        self,
        handler: Handler | Subscriber,
        *,
        name: str | None = None,
        filter: str | None = None,
        order: str = "ordered",
        retry: int = 0,
        backoff_delay: str = "PT0.2S",
        backoff_policy: str = "exponential",
        timeout: str = "PT300S",
        concurrency: int = 100,
    ) -> Trigger:
        """A trigger for the events that are sent from now on. `filter`: a CloudEvents SQL expression; the others are as
        in `delivery` and the annotations of a Trigger. Raises UsageError, or CesqlSyntaxError."""
        if filter is not None:
            cesql.compile(filter)
        try:
            delivery = DeliverySpec(
                retry=retry,
                backoff_policy=BackoffPolicy(backoff_policy),
                backoff_delay_s=parse_duration_s(backoff_delay),
                timeout_s=parse_duration_s(timeout),
            )
            ordered = DeliveryOrder(order)
        except ValueError as problem:
            raise UsageError(f"The subscription is not valid: {problem}.", "Correct the arguments.") from None
        label = name or f"trigger-{len(self._topic.triggers)}"
        spec = Subscription(
            uid=label, generation=1, namespace="memory", name=label, channel_uid="memory", channel="memory",
            topic=TOPIC, dlq_topic=DLQ_TOPIC, partitions=1, group=label, subscriber=Addressable(f"memory:{label}"),
            delivery=delivery, order=ordered, concurrency=concurrency, kind=TRIGGER,
            filter=ALL_EVENTS if filter is None else Cesql(filter),
        )  # fmt: skip
        subscriber = handler if isinstance(handler, Subscriber) else Subscriber(handler)
        subscriber.waits_in_thread = False  # virtual time would not wait for the thread
        trigger = Trigger(spec, subscriber, self._topic, len(self._topic.records))
        self._topic.triggers.append(trigger)
        return trigger

    def send(
        self, event: BaseCloudEvent | Mapping[str, Any] | None = None, /, *, data: Data = None, **attributes: Any
    ) -> BaseCloudEvent:
        """Store one event, given as for `Client.send`; `run` delivers it. Handlers may call this. Raises UsageError."""
        made: BaseCloudEvent = as_event(event, data, attributes)
        headers, body = to_message(made)
        try:
            stored, key, value = to_record([(name.encode(), text.encode()) for name, text in headers.items()], body)
        except BadEvent as problem:
            raise UsageError(f"The ingress would not accept the event: {problem}.", "Correct the attributes.") from None
        self._topic.store((stored, key, value))
        return made

    def run(self, limit_s: float = _LIMIT_S) -> None:
        """Deliver until every event is settled. Raises TimeoutError after `limit_s` seconds of virtual time."""
        self._topic.run(self._topic.settle(limit_s))

    def sleep(self, seconds: float) -> None:
        """Let virtual time go by."""
        self._topic.run(asyncio.sleep(seconds))
