"""Delivers dead letters again, each to the subscriber of its own subscription only.

    letters --> redriven before? --> owner? --> rate, free slot --> POST, bounded retries --> ledger entry --> next
                     | yes            | none                            | failed
                     v                v                                 v
                   skipped          failed                    failed; many in a row end the run

A slot is free again only when Kafka has acknowledged the ledger entry, so after a kill at most the letters in flight
are delivered again. With one slot, letters are delivered in offset order. An answer that is an event goes to the
subscription's `reply`, as in any delivery. Does not write a new dead letter when a letter fails again: the old one
stays in its topic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agents.dispatch.attempt import Request, post, with_reply
from agents.dispatch.hops import Hops, OwnAddresses
from agents.dispatch.reply_store import headers_of, too_deep, verdict_of
from agents.dispatch.retrying import Caps, until_settled
from agents.http.egress_guard import EgressGuard
from agents.http.own_ingress import OwnIngress
from agents.http.pool import ConnectionPool, PoolConfig
from app.operations.dead_letters.ledger import Ledger, LedgerEntry, LedgerWriter
from app.operations.dead_letters.letters import DeadLetter, owner
from app.operations.dead_letters.rate import RateLimiter
from app.operations.dead_letters.summary import Summary
from app.timing import END_S
from app.worker.system_clock import SystemClock
from knative import timefmt
from knative.cloudevents.kafka_binding import Unreadable
from knative.contract.records import Channel, Subscription
from knative.delivery.attempt import Outcome, Recipient
from knative.delivery.policy import Addressable, DeliverySpec
from knative.delivery.verdicts import FinalFailure, Reply, RetryableFailure, Verdict
from knative.errors import PenstockError


@dataclass(frozen=True, slots=True)
class RedriveConfig:
    """Limits of a run. Times in seconds."""

    rate_per_s: float | None = None  #: None = as fast as the subscriber accepts them
    limit: int | None = None  #: letters tried
    retries: int = 3  #: after the first attempt, with the waits of the subscription's policy
    in_flight: int = 1  #: letters at a time; with one they keep their order
    failures_max: int = 10  #: number of failures in a row that ends the run
    wait_max_s: float = 10.0  #: longest wait before a retry
    reply_depth_max: int = 64  #: how many replies and deliveries to own addresses may lead to an event


class Redrive:
    """One run. Event loop only. `failed` is called with each letter that failed and the reason."""

    def __init__(
        self,
        config: RedriveConfig,
        pools: tuple[PoolConfig, EgressGuard, OwnIngress | None],
        subscriptions: Sequence[Subscription],
        ledger: Ledger,
        writer: LedgerWriter,
        failed: Callable[[DeadLetter, str], None],
        channels: Iterable[Channel] = (),
    ) -> None:
        """`channels`: the channels and brokers of the contract."""
        self._hops = Hops(config.reply_depth_max, OwnAddresses(channels))
        self.summary = Summary()
        self._config = config
        self._pool_parts = pools
        self._subscriptions = subscriptions
        self._ledger = ledger
        self._writer = writer
        self._report_failure = failed
        self._pools: dict[Addressable, ConnectionPool] = {}
        self._stop = asyncio.Event()
        self._in_a_row = 0

    def stop(self, why: str) -> None:
        """Start no more letters; those in flight have some seconds. A second call aborts them."""
        if self._stop.is_set():
            self._abort()
            return
        self.summary.stopped = why
        self._stop.set()
        asyncio.get_running_loop().call_later(END_S, self._abort)

    async def run(self, letters: Iterator[DeadLetter]) -> Summary:
        """Redrive these letters in order. The reason of an early end is in the summary and not raised."""
        slots = asyncio.Semaphore(self._config.in_flight)
        try:
            async with asyncio.TaskGroup() as group:
                self.summary.complete = await self._begin_all(letters, slots, group)
        finally:
            for pool in self._pools.values():
                await pool.close(0.0)
        return self.summary

    async def _begin_all(
        self, letters: Iterator[DeadLetter], slots: asyncio.Semaphore, group: asyncio.TaskGroup
    ) -> bool:
        """Start all letters. Returns whether all were read; else a limit or a stop came before."""
        limiter = RateLimiter(self._config.rate_per_s)
        tried = 0
        try:
            async for letter in _ahead(letters):
                if self._stop.is_set():
                    return False
                if self._ledger.has(letter):
                    self.summary.already += 1
                elif tried == self._config.limit or await self._wait_turn(limiter, slots):
                    return False
                else:
                    tried += 1
                    group.create_task(self._guarded(letter, slots))
                self.summary.selected += 1
        except PenstockError as problem:  # the next letters cannot be read
            self.stop(str(problem).rstrip("."))
            return False
        return True

    async def _wait_turn(self, limiter: RateLimiter, slots: asyncio.Semaphore) -> bool:
        """Wait for a slot, and then for the rate. Returns whether the run stops instead, without a slot."""
        # The slot first: a time that was taken before a long wait for a slot would be in the past by then, and several
        # letters could go out at once.
        await slots.acquire()
        if not self._stop.is_set():
            await self._hold(limiter.wait_s(asyncio.get_running_loop().time()))
        if self._stop.is_set():
            slots.release()
        return self._stop.is_set()

    async def _hold(self, wait_s: float) -> None:
        """Wait, or return at once when the run stops."""
        if wait_s <= 0:
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._stop.wait()
        except TimeoutError:
            return

    def _abort(self) -> None:
        for pool in self._pools.values():
            pool.abort()

    async def _guarded(self, letter: DeadLetter, slots: asyncio.Semaphore) -> None:
        try:
            await self._one(letter)
        finally:
            slots.release()

    async def _one(self, letter: DeadLetter) -> None:
        subscription = owner(letter, self._subscriptions)
        if subscription is None:
            gone = f"the subscription {letter.subscription} no longer exists" if letter.subscription else ""
            self._failed(letter, gone or "the letter does not name its subscription")
            return
        try:
            outcome = await self._deliver(letter, subscription)
        except Unreadable as problem:
            self._failed(letter, f"the record is not a CloudEvent: {problem.reason}")
            return
        verdict = outcome.verdict
        if isinstance(verdict, RetryableFailure | FinalFailure):
            self._in_a_row += 1
            self._failed(letter, verdict.reason)
            if self._in_a_row >= self._config.failures_max and not self._stop.is_set():
                self.stop(f"{self._in_a_row} letters in a row failed")
            return
        self._in_a_row = 0
        entry = LedgerEntry(
            letter.record.timestamp_ms,
            letter.event_id,
            subscription.label,
            timefmt.in_milliseconds(time.time()),
            outcome.attempts,
        )
        try:
            await asyncio.to_thread(self._writer.record, letter, entry)
        except PenstockError as problem:  # stop, because a later run would deliver all letters without an entry again
            self._failed(letter, str(problem).rstrip("."))
            self.stop("the redrive ledger could not be written")
        else:
            self.summary.redriven += 1

    def _failed(self, letter: DeadLetter, reason: str) -> None:
        self.summary.fail(letter.subscription, reason)
        self._report_failure(letter, reason)

    # -- one letter

    async def _deliver(self, letter: DeadLetter, subscription: Subscription) -> Outcome:
        """Make all attempts for one letter. Raises Unreadable."""
        headers = letter.original_headers()
        made = 0

        async def attempt() -> Outcome:
            nonlocal made
            made += 1
            to, value = subscription.subscriber, letter.record.value
            outcome = await self._post(Request(Recipient.SUBSCRIBER, to, subscription, headers, value, made))
            return await with_reply(outcome, headers, subscription, self._post, store_reply, dropped=_not_counted)

        async def store_reply(subscription: Subscription, reply: Reply, number: int) -> Outcome:
            verdict: Verdict | None = too_deep(headers, self._config.reply_depth_max)
            if verdict is None:
                stored = headers_of(reply, headers)
                verdict = verdict_of(
                    await asyncio.to_thread(self._writer.store_reply, subscription.topic, reply, stored)
                )
            topic = f"kafka:{subscription.topic}"
            return Outcome(verdict, topic, number, time.time(), 0.0, recipient=Recipient.REPLY)

        def spec() -> DeliverySpec:
            # Evaluated before each retry: after a stop at most one is left, so the letters in flight end soon.
            return replace(subscription.delivery, retry=0 if self._stop.is_set() else self._config.retries)

        def failed(outcome: Outcome, wait_s: float) -> None:
            """Does nothing: only the outcome of the last attempt is reported."""

        caps = Caps(self._config.wait_max_s, self._config.wait_max_s)
        return await until_settled(await attempt(), attempt, spec=spec, hold=self._hold, failed=failed, caps=caps)

    async def _post(self, request: Request) -> Outcome:
        pool = self._pools.get(request.destination)
        if pool is None:
            pool = self._pools[request.destination] = ConnectionPool(request.destination, *self._pool_parts)
        return await post(pool, SystemClock(), self._hops, request)


def _not_counted() -> None:
    """A reply without a destination is dropped, as in any delivery. Only workers count these."""


async def _ahead(letters: Iterator[DeadLetter]) -> AsyncIterator[DeadLetter]:
    """Yields the same letters, read a few at a time in a thread."""
    # Few at a time: each letter may be as large as an event.
    while batch := await asyncio.to_thread(lambda: list(islice(letters, 20))):
        for letter in batch:
            yield letter
