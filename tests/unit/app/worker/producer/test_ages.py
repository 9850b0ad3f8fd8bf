"""How long records wait, and which may be stored twice: tables of times."""

from __future__ import annotations

from collections import Counter

import pytest

from app.worker.producer.ages import StoredAgain, Waiting, identity_of

FIRST, SECOND = (4711, 0), (4711, 1)


def test_oldest_that_waits_counts() -> None:
    waiting = Waiting(1.0, now_s=0.0)
    first = waiting.generation
    first[0] += 2
    assert waiting.oldest_s(0.5) == 0.0, "its generation is not over"
    assert waiting.oldest_s(1.0) == 0.0
    second = waiting.generation
    second[0] += 1
    assert second is not first
    assert waiting.oldest_s(5.0) == 4.0
    first[0] -= 2
    assert waiting.oldest_s(5.5) == 0.5
    second[0] -= 1
    assert waiting.oldest_s(9.0) == 0.0


def test_generation_used_before_it_was_closed_is_not_lost() -> None:
    waiting = Waiting(1.0, now_s=0.0)
    looked_up = waiting.generation
    assert waiting.oldest_s(1.0) == 0.0
    looked_up[0] += 1
    assert waiting.oldest_s(1.5) == 0.5


@pytest.mark.parametrize(
    ("sent_s", "acked_s", "counts"),
    [
        (1.0, 2.0, False),  # acknowledged before the look at which all was as before
        (4.0, 6.0, True),  # out in the time in which the epoch changed
        (6.0, 7.0, True),  # it may have changed between these
    ],
)
def test_what_was_out_when_the_epoch_changed_counts(sent_s: float, acked_s: float, counts: bool) -> None:
    again = StoredAgain(0.0)
    looks = [(5.0, FIRST), (10.0, SECOND)]
    totals: Counter[str] = Counter()
    for now_s, identity in [(0.5, FIRST), *looks]:
        if now_s >= acked_s and not totals["asked"]:
            totals["asked"] = 1
            assert not again.acknowledged("t", sent_s, acked_s)
        totals += again.looked(identity, now_s)
    assert totals["t"] == int(counts)


def test_what_is_acknowledged_after_the_change_was_seen_counts_at_once() -> None:
    again = StoredAgain(0.0)
    assert not again.looked(FIRST, 5.0)
    assert not again.looked(SECOND, 10.0)
    assert again.acknowledged("t", 9.0, 11.0)
    assert not again.acknowledged("t", 10.5, 11.0)


def test_first_identity_is_not_a_change() -> None:
    again = StoredAgain(0.0)
    assert not again.acknowledged("t", 0.0, 1.0)
    assert not again.looked(None, 2.0)
    assert not again.acknowledged("t", 0.0, 3.0)
    assert not again.looked(FIRST, 4.0)
    assert not again.acknowledged("t", 0.0, 5.0)
    assert not again.looked(None, 6.0)
    assert not again.looked(FIRST, 8.0)


def test_identity_is_that_of_the_statistics_or_none() -> None:
    text = '{"topics": {}, "eos": { "txn_may_enq": false, "producer_id": %d, "producer_epoch": %d, "epoch_cnt": 1 }}'
    assert identity_of(text % (7, 2)) == (7, 2)
    assert identity_of(text % (-1, -1)) is None
    assert identity_of("{}") is None
