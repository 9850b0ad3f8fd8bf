"""How URLs are shown to people: without user, password and query, which may be secrets.

Statuses, logs, traces, dead letters and reports have URLs in this form. Only the contract has them whole.
"""

from __future__ import annotations

import re
from functools import lru_cache

_USER = re.compile(r"(?<=//)[^/?#]*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)


@lru_cache(maxsize=4096)
def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment; it need not be valid."""
    return _QUERY.sub("", _USER.sub("", url))


def quoted(text: str, most: int = 64) -> str:
    """What a person wrote, for a message about it: in quotes, at most so many characters, a URL as it is shown."""
    return repr((shown_url(text) if "//" in text else text)[:most])
