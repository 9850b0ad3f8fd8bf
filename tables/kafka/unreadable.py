"""Names a record of an internal topic that is not valid. Whoever reads it then skips it."""

from __future__ import annotations

import logging
from typing import Protocol

from knative.errors import SHOWN_CHARS

#: A logger of the standard library: it writes to standard error even in a command, where logging is not configured.
log = logging.getLogger(__name__)


class Placed(Protocol):
    """A record that knows its place."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


def skip(topic: str, record: Placed, reason: Exception) -> None:
    """Name the record in the log, with its place and the reason."""
    key = (record.key or b"").decode("utf-8", "replace")[:SHOWN_CHARS]
    place = f"{topic}/{record.partition}/{record.offset}"
    log.error("the record %s with the key %r cannot be read and is skipped: %s", place, key, reason)
