"""The redrive ledger: which letter a mark is of, and which marks are of letters that are gone."""

from __future__ import annotations

import pytest

from app.cli.dlq.show import letter_json
from app.operations.dead_letters.ledger import Ledger, LedgerEntry, decode, encode
from tests.unit.app.operations.dead_letters.samples import dead_letter


def test_mark_is_of_one_letter_only() -> None:
    letter = dead_letter()
    mark = LedgerEntry(5_000, "1", "ns/a", "2026-11-21T12:00:00.000Z", 2)
    assert decode(encode(mark)) == mark
    ledger = Ledger({"t.dlq/2/0": mark})
    assert ledger.has(letter)
    assert letter_json(letter, ledger)["redriven"] == mark.redriven_at
    assert not ledger.has(dead_letter(offset=1))
    assert not ledger.has(dead_letter(time_ms=5_001)), "the topic was created again: the offset is of another letter"
    with pytest.raises(ValueError, match="schema 9"):
        decode(b'{"schema": 9}')


def test_marks_below_the_start_of_a_partition_are_those_of_letters_that_are_gone() -> None:
    mark = LedgerEntry(0, "", "", "", 1)
    ledger = Ledger({"a/0/4": mark, "a/0/5": mark, "a/1/0": mark, "b/0/0": mark})
    assert ledger.below("a", {0: 5}) == ["a/0/4"]
    assert ledger.below("a", {0: 9, 1: 1}) == ["a/0/4", "a/0/5", "a/1/0"]
    assert ledger.below("c", {0: 9}) == []
