"""Tables with keys that clients choose stay bounded; a full table is cleared, so that common keys get in again."""

from __future__ import annotations

from knative import memo


def test_full_table_begins_again() -> None:
    table: dict[str, int] = {}
    for number in range(memo.ENTRIES_MAX + 1):
        memo.remember(table, f"x{number}", number)
    assert table == {f"x{memo.ENTRIES_MAX}": memo.ENTRIES_MAX}


def test_long_key_is_not_kept() -> None:
    table: dict[bytes, None] = {}
    memo.remember(table, b"a" * memo.ENTRY_BYTES_MAX, None)
    memo.remember(table, b"a" * (memo.ENTRY_BYTES_MAX + 1), None)
    assert list(table) == [b"a" * memo.ENTRY_BYTES_MAX]


def test_shape_is_kept_unless_it_is_long() -> None:
    table: dict[tuple[str, ...], int] = {}
    memo.remember_shape(table, ("a", "b"), 1)
    memo.remember_shape(table, tuple(str(number) for number in range(1000)), 2)
    memo.remember_shape(table, ("a", "b" * (4 * memo.ENTRY_BYTES_MAX)), 3)
    assert table == {("a", "b"): 1}
