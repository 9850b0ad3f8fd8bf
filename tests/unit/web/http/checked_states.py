"""A reader and a connection for tests that refuse a change of state that their tables do not allow."""

from __future__ import annotations

from tests.support.checked_state import CheckedState
from web.http.connection import Connection, Server
from web.http.request_reader import RequestReader
from web.http.state import CONNECTION, READER


class CheckedReader(RequestReader):
    """A reader whose changes of state are checked against the table, each one."""

    state = CheckedState(READER)


class CheckedConnection(Connection):
    """A connection whose changes of state, and those of its reader, are checked against their tables."""

    state = CheckedState(CONNECTION)

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._reader = CheckedReader(server.config)
