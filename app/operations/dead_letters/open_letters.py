"""Counts the dead letters of each subscription that are not redriven. Reads each letter once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from app.operations.dead_letters.ledger import Ledger, read_ledger
from app.worker.dlq_sizes import DlqSizes


class OpenLetters:
    """Blocks, so use it in a thread, one call at a time."""

    def __init__(self, kafka: Mapping[str, Any], instance: str) -> None:
        self._kafka, self._instance = kafka, instance
        self._sizes = DlqSizes(kafka, tuple, lambda: True)

    def count(self, topics: list[str]) -> dict[str, int] | None:
        """By label of the subscription; None: not all letters are read yet. Raises NotReadyError, and PenstockError for
        a ledger of a newer version."""
        self._sizes.refresh(topics)
        sizes = self._sizes.sizes
        if sizes is None:
            return None
        ledger = read_ledger(self._kafka, self._instance) if sizes else Ledger({})
        redriven = Counter(
            self._sizes.letters.owner((topic, number), offset) for topic, number, offset in ledger.places
        )
        return {label: count - redriven[label] for label, count in sizes.items() if count > redriven[label]}
