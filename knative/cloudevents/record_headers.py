"""The headers of a consumed record, whatever bytes their names are.

confluent-kafka decodes header names as UTF-8. For a name that is not, `Message.headers()` gives a list with holes and
leaves its exception pending: CPython's own way of calling methods does not notice, the exception comes out of some
later line, and reading the list ends the process. Called through `methodcaller` the exception is raised at the call; a
second call would give the list with the holes, so there is exactly one. Refuses to know what the headers mean.
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any

#: Stands in the place of headers that cannot be read; it travels along to the dead letters.
UNREADABLE_NAME = "unreadable-headers"
UNREADABLE_REASON = "the name of a header is no UTF-8"
UNREADABLE = ((UNREADABLE_NAME, UNREADABLE_REASON.encode()),)

_headers = methodcaller("headers")


def record_headers(message: Any) -> list[tuple[str, bytes | None]]:
    """Name and value of each header of a `confluent_kafka.Message`, in order. Call it once for each message."""
    try:
        return _headers(message) or []
    except (UnicodeDecodeError, SystemError):
        return list(UNREADABLE)
