"""Durations as ISO 8601 writes them, and the wait before each retry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.delivery.policy import (
    JITTER_SHARE,
    BackoffPolicy,
    DeliverySpec,
    delay_s,
    parse_duration_s,
)

CAP_S = 600.0
ASKED_CAP_S = 2 * CAP_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT0.2S", 0.2),
        ("PT0,5S", 0.5),
        ("PT0S", 0.0),
        ("PT168H", 604_800.0),
        ("P7D", 604_800.0),
        ("P1W", 604_800.0),
        ("P1DT1H1M1.5S", 90_061.5),
        ("PT1.5M", 90.0),
        ("P1W1D", 691_200.0),
    ],
)
def test_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "10s",
        "0.2",
        "pt1s",
        "-PT1S",
        "PT-1S",
        "PT1S ",
        "PT1H1",
        "P1Y",
        "P2M",
        "PT1.5H3M",
        "PT1S1M",
        "PT\u0663S",
        "PT1e3S",
        "P999999999D",
        "PT" + "1" * 80 + "S",
    ],
)
def test_text_that_is_not_a_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_duration_s(text)


@given(st.integers(0, 10**5), st.integers(0, 59), st.integers(0, 59_999))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, milliseconds: int) -> None:
    text = f"PT{hours}H{minutes}M{milliseconds / 1000:.3f}S"
    assert parse_duration_s(text) == pytest.approx(hours * 3600 + minutes * 60 + milliseconds / 1000)


EXPONENTIAL = DeliverySpec(retry=10, backoff_delay_s=0.2)
LINEAR = DeliverySpec(retry=10, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0)


@pytest.mark.parametrize(
    ("spec", "n", "retry_after_s", "expected_s"),
    [
        (EXPONENTIAL, 1, None, 0.2),
        (EXPONENTIAL, 2, None, 0.4),
        (EXPONENTIAL, 10, None, 102.4),
        (EXPONENTIAL, 13, None, CAP_S),
        (EXPONENTIAL, 5_000, None, CAP_S),
        (LINEAR, 1, None, 2.0),
        (LINEAR, 3, None, 6.0),
        (LINEAR, 5_000, None, CAP_S),
        (DeliverySpec(backoff_delay_s=0.0), 9, None, 0.0),
        (EXPONENTIAL, 1, 5.0, 5.0),  # the larger wins
        (EXPONENTIAL, 6, 5.0, 6.4),
        (EXPONENTIAL, 1, 9_999.0, ASKED_CAP_S),  # a cap of its own, when no maximum is given
        (DeliverySpec(backoff_delay_s=0.2, retry_after_max_s=3.0), 1, 9_999.0, 3.0),
        (DeliverySpec(backoff_delay_s=0.2, retry_after_max_s=3_600.0), 1, 9_999.0, 3_600.0),
        (DeliverySpec(backoff_delay_s=0.2, retry_after_max_s=0.0), 1, 9_999.0, 0.2),
        (EXPONENTIAL, 1, -5.0, 0.2),
        (EXPONENTIAL, 1, float("nan"), 0.2),
    ],
)
def test_wait_is_that_of_the_policy(spec: DeliverySpec, n: int, retry_after_s: float | None, expected_s: float) -> None:
    assert delay_s(spec, n, 0.0, CAP_S, retry_after_s, ASKED_CAP_S) == pytest.approx(expected_s)


@given(
    st.sampled_from(BackoffPolicy),
    st.floats(0, 3600),
    st.integers(1, 10**6),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0, 10**7),
)
def test_jitter_only_adds_and_at_most_its_share(
    policy: BackoffPolicy, backoff_s: float, n: int, jitter: float, retry_after_s: float | None
) -> None:
    spec = DeliverySpec(backoff_policy=policy, backoff_delay_s=backoff_s)
    least_s = delay_s(spec, n, 0.0, CAP_S, retry_after_s, ASKED_CAP_S)
    assert least_s <= max(CAP_S, ASKED_CAP_S)
    assert least_s <= delay_s(spec, n, jitter, CAP_S, retry_after_s, ASKED_CAP_S) <= least_s * (1 + JITTER_SHARE)


@given(st.sampled_from(BackoffPolicy), st.floats(0, 3600), st.integers(1, 2000))
def test_waits_never_shrink(policy: BackoffPolicy, backoff_s: float, n: int) -> None:
    spec = DeliverySpec(backoff_policy=policy, backoff_delay_s=backoff_s)
    assert delay_s(spec, n, 0.0, CAP_S, None, ASKED_CAP_S) <= delay_s(spec, n + 1, 0.0, CAP_S, None, ASKED_CAP_S)
