"""The retry loop for subscribers and dead letter sinks: tenacity runs it, the delivery policy decides.

Callers supply the attempt and the wait, and decide what happens when the retries are used up.
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
    """Upper limits of waits, in seconds: for the policy's backoff, and for Retry-After without `retryAfterMax`."""

    delay_s: float = 600.0
    retry_after_s: float = 600.0


def wait_s(outcome: Outcome, spec: DeliverySpec, caps: Caps, jitter: float) -> float:
    """Returns the seconds from this failed attempt to the next one; `jitter` in [0, 1)."""
    verdict = outcome.verdict
    assert isinstance(verdict, RetryableFailure)
    asked = retry_after_s(verdict.retry_after, outcome.at) if verdict.code in (429, 503) else None
    return delay_s(spec, outcome.attempts, jitter, caps.delay_s, asked, caps.retry_after_s)


def rest_s(due: float, now: float, spec: DeliverySpec, caps: Caps) -> float:
    """Returns the seconds until `due`, at most the longest wait of the policy. `due` and `now` are Unix seconds.

    Another owner wrote `due` by its own clock, so a wrong clock must not delay an attempt for longer than the policy.
    """
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
    """Call `again` while the outcome is retryable and the policy allows a retry; returns the last outcome.

    `spec` is called each time, so that a changed policy applies from the next attempt on. `failed(outcome, wait_s)` is
    called before each wait, and `hold(wait_s)` waits.
    """
    made = [first]

    # tenacity makes the attempts itself; the first one has been made, so it is handed out without a request.
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
        retrying.iter_state.reset()  # breaks a reference cycle that keeps event and answer in memory
