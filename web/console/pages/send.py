"""A form that sends one event to a channel or broker, and shows the answer. As `penstock send`."""

from __future__ import annotations

from collections.abc import Mapping

from knative.errors import PenstockError, UsageError
from web.console.page import Ask, Page, Values
from web.console.pages.channel import send_command
from web.console.pages.events import channel_choices, channel_of
from web.console.safety import Mode

_EXAMPLE = {
    "type": "dev.penstock.example",
    "source": "/penstock/console",
    "id": "",
    "key": "",
    "contenttype": "application/json",
    "more": "",
    "data": '{"content": "Test Message"}',
}


async def _form(ask: Ask) -> Values:
    channels = channel_choices(ask)
    title = ask.form.get("of") or ask.query.get("of", "")
    return {
        "channels": channels,
        "channel": channel_of(ask.state, title) if channels.count else None,
        "command": send_command(channel_of(ask.state, title)) if channels.count else None,
        "fields": {name: ask.form.get(name, value) for name, value in _EXAMPLE.items()},
        "may_write": ask.mode is Mode.WRITE,
        "sent": None,
        "problem": None,
    }


async def _send(ask: Ask) -> Values:
    form = ask.form
    try:
        channel = channel_of(ask.state, form.get("of", ""))
        data = form.get("data", "").replace("\r\n", "\n")  # browsers send line ends so, whatever they were
        return {"sent": await ask.acts.send(channel, attributes_of(form), data, ask.who)}
    except PenstockError as raised:
        return {"problem": str(raised)}


def attributes_of(form: Mapping[str, str]) -> dict[str, str]:
    """Returns the attributes that the form has. Raises UsageError."""
    attributes = {
        "type": form.get("type", ""),
        "source": form.get("source", ""),
        "id": form.get("id", ""),
        "partitionkey": form.get("key", ""),
        "datacontenttype": form.get("contenttype", ""),
    }
    for line in form.get("more", "").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not (equals and name.strip()):
            raise UsageError(f"{line[:80]!r} is not a valid attribute.", "Write one NAME=VALUE per line.")
        if line.strip():
            attributes[name.strip()] = value.strip()
    return {name: value for name, value in attributes.items() if value}


PAGES = (Page("/send", "send.html", _form, nav="Send", place=25, live=False, post=_send),)
