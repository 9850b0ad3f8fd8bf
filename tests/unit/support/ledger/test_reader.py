"""What a commit says, as Kafka's own log has it."""

from __future__ import annotations

import struct

import pytest

from agents.offsets.offset_metadata import write
from tests.support.ledger.facts import Committed
from tests.support.ledger.reader import decode_commit


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize(
    "settled", [set(), {101}, {102, 103, 170}, {*range(101, 3_000, 2)}], ids=["none", "one", "some", "deflated"]
)
def test_settled_offsets_of_a_commit(settled: set[int]) -> None:
    """Read by code that shares nothing with the worker's."""
    metadata = write(100, settled, {100: 3}, {100: 1_700_000_000.0})
    key = struct.pack(">h", 1) + _string("g") + _string("t") + struct.pack(">i", 7)
    value = struct.pack(">hqi", 3, 100, 5) + _string(metadata and metadata + "\0") + struct.pack(">q", 2_000)
    assert decode_commit(key, value, ["h"]) is None
    assert decode_commit(key, value, ["g"]) == Committed("g", "t", 7, 100, 2.0, sorted(settled))
