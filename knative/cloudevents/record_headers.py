"""Reads the headers of a consumed record safely, whatever bytes their names are.

confluent-kafka decodes header names as UTF-8. For a name that is not valid UTF-8, `Message.headers()` returns a list
with NULL entries and leaves its exception pending. CPython's fast method call does not check for it: the exception
appears at some later line, and reading the list crashes the process. A call through `methodcaller` raises the exception
at once. A second call would return the broken list, so call it exactly once.
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any

#: Replaces headers that cannot be read. It is also part of the dead letter.
UNREADABLE_NAME = "unreadable-headers"
UNREADABLE_REASON = "the name of a header is not valid UTF-8"
UNREADABLE = ((UNREADABLE_NAME, UNREADABLE_REASON.encode()),)

_headers = methodcaller("headers")


def record_headers(message: Any) -> list[tuple[str, bytes | None]]:
    """Returns name and value of each header of a `confluent_kafka.Message`, in order. Call it once per message."""
    try:
        return _headers(message) or []
    except (UnicodeDecodeError, SystemError):
        return list(UNREADABLE)
