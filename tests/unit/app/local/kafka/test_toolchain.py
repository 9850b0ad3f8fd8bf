"""The version of Java is read from its own words."""

from __future__ import annotations

import pytest

from app.local.kafka import toolchain


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_java_major(text: str, major: int | None) -> None:
    assert toolchain.java_major(text) == major
