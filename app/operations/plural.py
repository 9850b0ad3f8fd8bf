"""A number and what it counts, as people write it. Pure."""

from __future__ import annotations


def count(number: int, what: str) -> str:
    """Returns text such as "1 worker" or "2 workers"."""
    return f"{number} {what}" + ("" if number == 1 else "s")
