"""Which URLs events can be sent to, and how URLs are shown to people: without user, password and query, which may be
secrets.

Statuses, logs, traces, dead letters and reports have URLs in this form. Only the contract has them whole.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import urlsplit

URI_CHARS_MAX = 8_192
_URI_CHARS = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+", re.ASCII)
_USER = re.compile(r"(?<=//)[^/?#]*@")
_SIGN = re.compile(r"//|[?#@]")  #: of a URL: after it, or before it, there may be a secret
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def uri_problem(uri: str) -> tuple[str, str] | None:
    """Returns why events cannot be sent to this URI, as (what, hint); None = they can."""
    if len(uri) > URI_CHARS_MAX:
        return f"has {len(uri)} characters", f"write at most {URI_CHARS_MAX}"
    if not _URI_CHARS.fullmatch(uri):
        return "has white space, control or non-ASCII characters", "percent-encode them"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:  # its message may quote a password
        return "is not a valid URI", "write it like http://host:8080/path"
    if parts.scheme not in ("http", "https"):
        return "is not an absolute http or https URI", "write it like http://host:8080/path"
    if "@" in parts.netloc:  # checked first, so that no other message quotes the credentials
        return "contains credentials", "remove `user:password@`; they would appear in logs and dead letters"
    if not _HOST.fullmatch(parts.hostname or "") or port == 0:
        return "does not have a valid host and port", "write it like http://host:8080/path"
    if "#" in uri:
        return "has a fragment (#...)", "remove it; fragments are never sent"
    return None


def host_in_url(host: str) -> str:
    """Returns a host name or IP address as it stands before `:PORT`: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


@lru_cache(maxsize=4096)
def shown_url(url: str) -> str:
    """Returns the URL without user, password, query and fragment; it need not be valid."""
    return _QUERY.sub("", _USER.sub("", url))


def quoted(text: str, most: int = 64) -> str:
    """Returns what a person wrote, for a message about it: in quotes, at most `most` characters. It may be a URL in the
    wrong place, or a part of one, with or without its scheme, so nothing is shown that may be a secret there."""
    return repr(_without_secrets(text)[:most])


def shown_key(key: str) -> str:
    """Returns a key of a mapping, for a path: in quotes if it may be a URL."""
    return quoted(key) if _SIGN.search(key) else key


def _without_secrets(text: str) -> str:
    sign = _SIGN.search(text)
    if sign is None:
        return text
    # What is before the @ may be a password, and where it begins is not certain.
    return "...@..." if "@" in text else f"{text[: sign.end()]}..."


def is_loopback(host: str) -> bool:
    """Returns whether a name or an address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
