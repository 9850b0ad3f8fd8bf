"""The program that counts instructions: its cases work, and its table says what has changed."""

from __future__ import annotations

import pytest

from benchmarks.instructions import cases, lines


@pytest.mark.asyncio
async def test_each_case_does_its_work_again_and_again() -> None:
    async with cases() as counted:
        assert [name.partition(":")[0] for name in counted] == ["in"] * 5 + ["out"] * 3
        for case in counted.values():
            for _ in range(3):
                case()


def test_table_says_what_has_changed() -> None:
    table = lines({"read": 1_100, "send": 990, "answer": 5}, {"read": 1_000, "send": 1_000})
    assert [line.split() for line in table] == [
        ["read", "1,100", "1,000", "+10.0", "%"],
        ["send", "990", "1,000", "-1.0", "%"],
        ["answer", "5", "new"],
    ]
