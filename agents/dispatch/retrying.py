"""Trying again: tenacity waits, the policy decides. One function for subscribers, replies and dead letter sinks.

Refuses to know how an attempt is made, what holds a lane, and where an event goes when its retries are used up.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from knative.delivery.attempt import Outcome
from knative.delivery.policy import JITTER_SHARE, DeliverySpec, delay_s, retry_after_max_s
from knative.delivery.verdicts import RetryableFailure, retry_after_s


@dataclass(frozen=True, slots=True)
class Caps:
    """The longest waits, in seconds: of the policy, and of a Retry-After without `retryAfterMax`."""

    delay_s: float = 600.0
    retry_after_s: float = 600.0


def wait_s(outcome: Outcome, spec: DeliverySpec, caps: Caps, jitter: float) -> float:
    """Seconds before the next attempt after this failed one; `jitter` in [0, 1)."""
    verdict = outcome.verdict
    assert isinstance(verdict, RetryableFailure)
    asked = retry_after_s(verdict.retry_after, outcome.at) if verdict.code in (429, 503) else None
    return delay_s(spec, outcome.attempts, jitter, caps.delay_s, asked, caps.retry_after_s)


def rest_s(due: float, now: float, spec: DeliverySpec, caps: Caps) -> float:
    """Seconds that are left until `due`, which another owner wrote down by a clock of its own: never more than the
    policy could have asked for. Both are Unix seconds."""
    longest = max(caps.delay_s, retry_after_max_s(spec, caps.retry_after_s))
    return min(max(0.0, due - now), longest * (1.0 + JITTER_SHARE))


async def until_settled(
    first: Outcome,
    again: Callable[[], Awaitable[Outcome]],
    *,
    spec: Callable[[], DeliverySpec],
    hold: Callable[[float], Awaitable[None]],
    failed: Callable[[Outcome, float], None],
    caps: Caps,
) -> Outcome:
    """Repeat `again` while outcomes ask for a retry and the policy allows one; gives the last outcome.

    `spec` is asked each time, so that a changed policy counts from the next attempt on. `failed(outcome, wait_s)` is
    called before each wait, `hold(wait_s)` does the waiting.
    """
    made = [first]

    async def attempt() -> Outcome:
        return made.pop() if made else await again()

    def outcome(state: RetryCallState) -> Outcome:
        assert state.outcome is not None
        result: Outcome = state.outcome.result()
        return result

    def before_wait(state: RetryCallState) -> None:
        assert state.next_action is not None
        failed(outcome(state), state.next_action.sleep)

    retrying = AsyncRetrying(
        retry=retry_if_result(lambda result: isinstance(result.verdict, RetryableFailure)),
        stop=lambda state: outcome(state).attempts > spec().retry,
        wait=lambda state: wait_s(outcome(state), spec(), caps, random.random()),
        before_sleep=before_wait,
        sleep=hold,
        retry_error_callback=outcome,
    )
    try:
        return await retrying(attempt)
    finally:
        retrying.iter_state.reset()  # its actions refer to it: event and answer would wait for the garbage collector
