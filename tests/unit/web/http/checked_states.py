"""A reader and a connection for tests that refuse a change of state that their tables do not allow."""

from __future__ import annotations

from web.http.connection import Connection, Server
from web.http.request_reader import RequestReader
from web.http.state import CONNECTION, READER, ConnectionState, ReaderState


class CheckedReader(RequestReader):
    """A reader whose changes of state are checked against the table, each one."""

    __slots__ = ("_state",)

    @property
    def state(self) -> ReaderState:
        return self._state

    @state.setter
    def state(self, state: ReaderState) -> None:
        before = getattr(self, "_state", None)
        assert before is None or state in READER[before], f"{before} -> {state}"
        self._state: ReaderState = state


class CheckedConnection(Connection):
    """A connection whose changes of state, and those of its reader, are checked against their tables."""

    __slots__ = ("_state",)

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._reader = CheckedReader(server.config)

    @property
    def state(self) -> ConnectionState:
        return self._state

    @state.setter
    def state(self, state: ConnectionState) -> None:
        before = getattr(self, "_state", None)
        assert before is None or state in CONNECTION[before], f"{before} -> {state}"
        self._state: ConnectionState = state
