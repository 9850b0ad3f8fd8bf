"""Which requests the console answers, and how a browser must treat the answers. Pure.

                    a page of another site may                              prevented by
read it             make its own name lead to this address (DNS rebinding)  Host, or the login
act in it           send a form                                             Origin, and the token in each form
frame it            draw over it (clickjacking)                             frame-ancestors
run code in it      put text into an event                                  escaping, and no code but our files
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

from knative.urls import is_loopback


class Mode(StrEnum):
    """What the console may do. The values are those of PENSTOCK_CONSOLE."""

    OFF = "off"
    READ = "read"
    WRITE = "write"


#: For PENSTOCK_CONSOLE=auto: what follows from the address and the tokens.
AUTO = "auto"

#: Of every answer. Scripts and styles are our own files; nothing is inline, and nothing comes from elsewhere.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers do not name the origin of a form
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: Of pages: they are of one person, and of now.
PAGE_HEADERS: Mapping[str, str] = {**HEADERS, "Cache-Control": "no-store", "Vary": "Accept, Cookie"}


def mode_of(wish: str, bind: str, has_tokens: bool) -> Mode:
    """Returns what PENSTOCK_CONSOLE means. `auto`: read, but off where others reach the port and need no token."""
    if wish != AUTO:
        return Mode(wish)
    return Mode.READ if has_tokens or is_loopback(bind) else Mode.OFF


def is_open_to_others(wish: str, bind: str, has_tokens: bool) -> bool:
    """Returns whether everybody who reaches the port could use it. No setting may ask for that."""
    return wish in (Mode.READ, Mode.WRITE) and not has_tokens and not is_loopback(bind)


def host_problem(host: str | None, has_tokens: bool) -> str | None:
    """Returns why a request with this Host gets no page; None = it gets one.

    Without a login, any page that a person here opens could name itself so that it leads to this port. With one, such a
    name has no session: a browser sends a cookie only to the host that has set it.
    """
    name = _hostname(host)
    if name is None:
        return "The header Host is missing or not valid."
    if not has_tokens and not is_loopback(name):
        return (
            f"This console answers at http://localhost only, not at {name[:64]}. Open that address, or set "
            "PENSTOCK_CONSOLE_TOKENS to let people log in."
        )
    return None


def origin_problem(origin: str | None, fetch_site: str | None, scheme: str, host: str) -> str | None:
    """Returns why a form must not count, by the headers Origin and Sec-Fetch-Site; None = it may.

    `scheme`, `host`: where it was sent to.
    """
    if fetch_site is not None and fetch_site != "same-origin":
        return "A page of another site sent this form."
    if origin is None:
        return None if fetch_site is not None else "The header Origin is missing."
    # Behind a proxy with TLS, the scheme of the page is https, and that of the request http.
    schemes = ("http", "https") if scheme == "http" else (scheme,)
    if origin.lower() not in {f"{candidate}://{host.lower()}" for candidate in schemes}:
        return "A page of another site sent this form."
    return None


def path_after_login(text: str) -> str:
    """Returns the path that a person wanted before the login. Anything but a path of this console is the overview."""
    is_path = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if is_path else "/"


def _hostname(host: str | None) -> str | None:
    """Returns the name or the address in a Host header."""
    if not host or any(character in host for character in "/\\?#@ \t,"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return None
    return parts.hostname if port is None or port > 0 else None
