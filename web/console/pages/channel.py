"""One channel or broker: its address, what it accepts, its topic, and who reads from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from shlex import quote

from knative.contract.records import BROKER, CHANNEL, Channel
from tables.resource_status import ResourceStatus
from web.console.cures import cure_of
from web.console.page import Ask, Page, Values
from web.console.pages.subscription import find
from web.console.rows import PATHS, condition_rows, row_of, with_flows, worst_first
from web.console.state import State


def page_of(kind: str) -> Page:
    """Returns the page of channels, or that of brokers."""

    async def build(ask: Ask) -> Values:
        status = find(ask.state, kind, ask.path["namespace"], ask.path["name"])
        return await asyncio.to_thread(values_of, ask.state, status, ask.limits.rows_max)

    return Page(f"/{PATHS[kind]}/{{namespace}}/{{name}}", "channel.html", build)


def values_of(state: State, status: ResourceStatus, rows_max: int) -> Values:
    """Returns what the page shows."""
    channel = status.channel
    mine = list(_readers(state.resources, channel))
    (row,) = with_flows([row_of(status, state.letters, len(mine))], state.traffic)
    readers = worst_first(row_of(reader, state.letters) for reader in mine)
    return {
        "status": status,
        "channel": channel,
        "cure": cure_of(status.ready),
        "conditions": condition_rows(status),
        "row": row,
        "subscriptions": with_flows(readers[:rows_max], state.traffic),
        "left_out": max(0, len(readers) - rows_max),
        "send": None if channel is None else send_command(channel),
    }


def _readers(resources: Iterable[ResourceStatus], channel: Channel | None) -> Iterable[ResourceStatus]:
    for status in resources:
        if channel is not None and status.subscription is not None and status.subscription.channel_uid == channel.uid:
            yield status


def send_command(channel: Channel) -> str:
    """Returns the command that sends an event to it."""
    option = "--broker" if channel.kind == BROKER else "--channel"
    return f"penstock send {option} {quote(f'{channel.namespace}/{channel.name}')}"


PAGES = (page_of(CHANNEL), page_of(BROKER))
