"""Filters of Triggers that would take gigabytes or minutes, if nothing bounded them."""

from __future__ import annotations

from typing import Any

#: 16,019 characters. Without a limit, one event with an attribute of 120,000 bytes makes a text of 960 MB.
MEMORY_BOMB: dict[str, Any] = {"cesql": f"LENGTH(CONCAT({','.join(['a'] * 8_000)})) > 0"}
#: A pattern without a match. A matcher that tries it at each character takes text times pattern.
PATTERN = "%" + "a" * 100 + "b%"
TIME_BOMB: dict[str, Any] = {"any": [{"cesql": " OR ".join([f"a LIKE '{PATTERN}'"] * 130)} for _ in range(4)]}
