"""How URLs are shown to people: without user, password and query, which may be secrets.

Statuses, logs, traces, dead letters and reports have URLs in this form. Only the contract has them whole.
"""

from __future__ import annotations

import re
from functools import lru_cache

_USER = re.compile(r"(?<=//)[^/?#]*@")
_SIGN = re.compile(r"//|[?#@]")  #: of a URL: after it, or before it, there may be a secret
_QUERY = re.compile(r"[?#].*", re.DOTALL)


@lru_cache(maxsize=4096)
def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment; it need not be valid."""
    return _QUERY.sub("", _USER.sub("", url))


def quoted(text: str, most: int = 64) -> str:
    """What a person wrote, for a message about it: in quotes, at most so many characters. It may be a URL at a wrong
    place or a part of one, with or without its scheme, so nothing is shown that may be a secret there."""
    return repr(_without_secrets(text)[:most])


def shown_key(key: str) -> str:
    """A key of a mapping, for a path: in quotes if it may be a URL."""
    return quoted(key) if _SIGN.search(key) else key


def _without_secrets(text: str) -> str:
    sign = _SIGN.search(text)
    if sign is None:
        return text
    # What is before the @ may be a password, and where it begins is not certain.
    return "...@..." if "@" in text else f"{text[: sign.end()]}..."
