"""What a record counts for in memory: everything that the subscription holds of it."""

from __future__ import annotations

import pytest

from agents.reader.memory_budget import record_bytes


@pytest.mark.parametrize(
    ("key", "value", "headers", "expected"),
    [
        (None, None, [], 0),
        (b"k" * 10, b"v" * 100, [], 110),
        (None, b"", [("ce_id", b"1"), ("ce_x", b"y" * 60_000)], 60_010),
        (b"k", None, [("a", None), ("bc", b"d")], 5),
        (None, None, [("ä" * 100, b"")], 100),
    ],
)
def test_key_value_and_headers_count(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], expected: int
) -> None:
    assert record_bytes(key, value, headers) - record_bytes(None, None, []) == expected
