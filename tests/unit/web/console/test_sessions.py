"""Sessions: who gets one, and when it ends."""

from __future__ import annotations

import hashlib

from web.console.limits import Limits
from web.console.sessions import Sessions, is_form_of


def _sessions(*tokens: str, limits: Limits | None = None) -> Sessions:
    sessions = Sessions(limits or Limits())
    sessions.names = {hashlib.sha256(token.encode()).digest(): f"owner of {token}" for token in tokens}
    return sessions


def test_token_opens_a_session_of_its_owner() -> None:
    sessions = _sessions("a", "b")

    id_ = sessions.log_in(" b\n", 0)
    session = sessions.find(id_, 1)

    assert session is not None
    assert session.name == "owner of b"
    assert sessions.log_in("c", 0) is None
    assert sessions.log_in("", 0) is None
    assert sessions.find("another", 1) is sessions.find(None, 1) is sessions.find("", 1) is None


def test_session_ends_in_time_at_log_out_and_with_its_token() -> None:
    sessions = _sessions("a", limits=Limits(session_s=10))
    first, second, third = (sessions.log_in("a", 0) for _ in range(3))

    assert sessions.find(first, 9.9) is not None
    assert sessions.find(first, 10) is None
    sessions.log_out(second)
    assert sessions.find(second, 1) is None
    sessions.names = {}
    assert sessions.find(third, 1) is None


def test_sessions_are_bounded_and_the_oldest_goes() -> None:
    sessions = _sessions("a", limits=Limits(sessions_max=2))
    first, second, third = (sessions.log_in("a", 0) for _ in range(3))

    assert [sessions.find(id_, 0) is not None for id_ in (first, second, third)] == [False, True, True]


def test_form_counts_in_its_own_session_only() -> None:
    sessions = _sessions("a")
    first, second = (sessions.find(sessions.log_in("a", 0), 0) for _ in range(2))
    assert first is not None
    assert second is not None

    assert is_form_of(first, first.form_token)
    assert not is_form_of(first, second.form_token)
    assert not is_form_of(first, "")
    assert not is_form_of(first, "ü")
