"""Retries: which waits, how many attempts, and that a changed policy counts at once."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agents.dispatch.retrying import Caps, rest_s, until_settled, wait_s
from knative.delivery.attempt import Outcome
from knative.delivery.policy import BackoffPolicy, DeliverySpec
from knative.delivery.verdicts import DELIVERED, FinalFailure, RetryableFailure, Verdict

CAPS = Caps(delay_s=600, retry_after_s=600)


def outcome(verdict: Verdict, attempts: int) -> Outcome:
    return Outcome(verdict, "http://s/", attempts, 1_000.0, 0.01)


def failure(code: int = 500, retry_after: str | None = None) -> RetryableFailure:
    return RetryableFailure(code, "because", b"", retry_after)


@pytest.mark.parametrize(
    ("verdict", "attempts", "spec", "expected"),
    [
        (failure(), 1, DeliverySpec(retry=5, backoff_delay_s=0.2), 0.2),
        (failure(), 3, DeliverySpec(retry=5, backoff_delay_s=0.2), 0.8),
        (failure(), 3, DeliverySpec(retry=5, backoff_delay_s=0.2, backoff_policy=BackoffPolicy.LINEAR), 0.6),
        (failure(429, "7"), 1, DeliverySpec(retry=5), 7.0),
        (failure(503, "7"), 1, DeliverySpec(retry=5, retry_after_max_s=3), 3.0),
        (failure(503, "7"), 1, DeliverySpec(retry=5, retry_after_max_s=0), 0.2),
        (failure(500, "7"), 1, DeliverySpec(retry=5), 0.2),  # only 429 and 503 may ask
        (failure(503, "soon"), 1, DeliverySpec(retry=5), 0.2),
        (failure(503, "100000"), 1, DeliverySpec(retry=5), 600.0),
        (failure(), 40, DeliverySpec(retry=50), 600.0),
    ],
)
def test_wait_is_that_of_the_policy(
    verdict: RetryableFailure, attempts: int, spec: DeliverySpec, expected: float
) -> None:
    assert wait_s(outcome(verdict, attempts), spec, CAPS, jitter=0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("due", "spec", "expected"),
    [
        (1_030.0, DeliverySpec(), 30.0),
        (990.0, DeliverySpec(), 0.0),
        (
            9_000_000.0,
            DeliverySpec(),
            660.0,
        ),  # by a clock that is wrong
        (9_000_000.0, DeliverySpec(retry_after_max_s=3_600), 3_960.0),
    ],
)
def test_what_is_left_of_another_owners_wait(due: float, spec: DeliverySpec, expected: float) -> None:
    assert rest_s(due, 1_000.0, spec, CAPS) == pytest.approx(expected)


class Script:
    """Outcomes in order, and what was waited."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)
        self.made = 0
        self.waits: list[float] = []
        self.noted: list[int] = []

    async def again(self) -> Outcome:
        self.made += 1
        return outcome(self.verdicts[self.made - 1], self.made)

    async def hold(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    def failed(self, what: Outcome, _wait_s: float) -> None:
        self.noted.append(what.attempts)

    async def run(self, spec: DeliverySpec) -> Outcome:
        first = await self.again()
        return await until_settled(first, self.again, spec=lambda: spec, hold=self.hold, failed=self.failed, caps=CAPS)


@pytest.mark.asyncio
async def test_success_ends_the_retries() -> None:
    script = Script(failure(), failure(), DELIVERED)
    last = await script.run(DeliverySpec(retry=5))
    assert (last.verdict, last.attempts, script.noted) == (DELIVERED, 3, [1, 2])


@pytest.mark.asyncio
async def test_retry_n_means_n_plus_one_attempts() -> None:
    script = Script(*[failure()] * 10)
    last = await script.run(DeliverySpec(retry=3))
    assert (last.attempts, script.made, len(script.waits)) == (4, 4, 3)
    assert isinstance(last.verdict, RetryableFailure)


@pytest.mark.asyncio
async def test_no_retry_without_a_policy() -> None:
    script = Script(failure())
    assert (await script.run(DeliverySpec(retry=0))).attempts == 1
    assert script.waits == []


@pytest.mark.asyncio
async def test_final_failure_is_not_repeated() -> None:
    script = Script(failure(), FinalFailure(400, "no", b""))
    last = await script.run(DeliverySpec(retry=9))
    assert (last.attempts, last.verdict) == (2, FinalFailure(400, "no", b""))


@pytest.mark.asyncio
async def test_attempts_of_an_earlier_owner_count() -> None:
    script = Script(*[failure()] * 5)
    script.made = 3  # the outcome of the first attempt here is number 4
    script.verdicts = [failure()] * 9
    last = await script.run(DeliverySpec(retry=3))
    assert (last.attempts, script.waits) == (4, [])


@pytest.mark.asyncio
async def test_changed_policy_counts_from_the_next_attempt_on() -> None:
    script = Script(*[failure()] * 9)
    specs = iter([DeliverySpec(retry=9)] * 4 + [DeliverySpec(retry=1)] * 9)
    first = await script.again()
    last = await until_settled(
        first, script.again, spec=lambda: next(specs), hold=script.hold, failed=script.failed, caps=CAPS
    )
    assert last.attempts < 5


@pytest.mark.asyncio
async def test_retries_that_have_ended_hold_nothing() -> None:
    script = Script(failure(), failure())
    held = weakref.ref(script)
    gc.collect()
    gc.disable()
    try:
        await script.run(DeliverySpec(retry=1))
        del script
        assert held() is None
    finally:
        gc.enable()
