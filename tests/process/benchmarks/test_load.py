"""The load generator says how a connection ended that owed an answer."""

from __future__ import annotations

import re

import pytest

from benchmarks.events import Events
from benchmarks.load import LoadConfig, run
from tests.support.scripted_server import ACCEPTED, ScriptedServer, reply, reset

pytestmark = pytest.mark.asyncio

SENT = r"sent at \d\d:\d\d:\d\d\.\d{6}, "


async def test_unanswered_request_is_described_with_the_past_of_its_connection() -> None:
    script = (reply(ACCEPTED), reply(ACCEPTED), reply(keep=False), reset(), reply(ACCEPTED))
    async with ScriptedServer(*script) as server:
        events = Events(server.url(), run="e", keys=1, body_bytes=1, seed=1, checked=False)
        result = await run(LoadConfig(server.url(), events=6, connections=1), events)
    assert result["statuses"] == {"0": 2, "202": 4}
    unanswered = result["unanswered"]
    assert isinstance(unanswered, list)
    closed, cut = unanswered
    assert re.fullmatch(SENT + r"after 2 answers and \d\.\d{3} s without a request: closed \d\.\d{4} s later", closed)
    assert re.match(SENT + r"after 0 answers and \d\.\d{3} s without a request: cut \(ConnectionResetError", cut)
