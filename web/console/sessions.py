"""Who is logged in. Pure: the clock is an argument.

A session is in the memory of one process. It ends with the process, after half a day, when its person logs out, and
when its token is no longer in the file.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from web.console.limits import Limits


@dataclass(frozen=True, slots=True)
class Session:
    """A person who is logged in. `form_token` is in every form of this session's pages, and no other site can know
    it."""

    name: str  #: whose token it is
    token_sum: bytes
    until_s: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Sessions:
    """All sessions of a process."""

    def __init__(self, limits: Limits) -> None:
        self.names: Mapping[bytes, str] = {}  #: SHA-256 of a token -> whose it is; replaced when the file changes
        self._limits = limits
        self._sessions: dict[str, Session] = {}

    def log_in(self, token: str, now_s: float) -> str | None:
        """Returns the id of a new session; None: there is no such token."""
        token_sum = hashlib.sha256(token.strip().encode()).digest()
        name = self.names.get(token_sum)
        if name is None:
            return None
        for id_ in [id_ for id_, session in self._sessions.items() if session.until_s <= now_s]:
            del self._sessions[id_]
        while len(self._sessions) >= self._limits.sessions_max:
            del self._sessions[next(iter(self._sessions))]  # the oldest
        id_ = secrets.token_urlsafe(32)
        self._sessions[id_] = Session(name, token_sum, now_s + self._limits.session_s)
        return id_

    def find(self, id_: str | None, now_s: float) -> Session | None:
        """Returns the session of a cookie; None: there is none, or it has ended."""
        session = self._sessions.get(id_ or "")
        if session is None or session.until_s <= now_s or session.token_sum not in self.names:
            return None
        return session

    def log_out(self, id_: str | None) -> None:
        """End a session."""
        self._sessions.pop(id_ or "", None)


def is_form_of(session: Session, form_token: str) -> bool:
    """Returns whether a form comes from a page of this session."""
    return hmac.compare_digest(session.form_token.encode(), form_token.encode())
