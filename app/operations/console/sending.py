"""Sends one event to the ingress of this worker, as `penstock send` does, for the form of the console."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from app.settings.load import Settings
from knative.contract.records import BROKER, Channel
from knative.errors import PenstockError
from knative.urls import host_in_url
from penstock.client import Client, address_of
from penstock.events import content_type_of, make_event, to_message
from web.console.acts import Sent
from web.console.pages.channel import send_command

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def ingress_of(settings: Settings) -> str | None:
    """Returns the address of the ingress of this process; None: its role has none."""
    if settings.role not in ("all", "ingress"):
        return None
    if settings.tls_cert and settings.ingress_url:
        return settings.ingress_url  # its certificate is for a name
    host = host_in_url(_ANYWHERE.get(settings.bind, settings.bind))
    return f"{'https' if settings.tls_cert else 'http'}://{host}:{settings.http_port}"


def prepared(settings: Settings, channel: Channel, attributes: Mapping[str, str], data: str) -> Callable[[], Sent]:
    """Returns what sends the event: it blocks, returns the answer of the ingress, and raises NotReadyError when nothing
    answers. Raises UsageError for an event that is not valid, and PenstockError where this worker cannot send."""
    name = f"{channel.namespace}/{channel.name}"
    kind = "broker" if channel.kind == BROKER else "channel"
    command = send_command(channel)
    server = ingress_of(settings)
    if server is None:
        raise PenstockError("This worker has no ingress.", f"Use `{command} --server ADDRESS`.")
    if settings.tokens:
        raise PenstockError(
            "The ingress requires a token, and the console has no token.",
            f"Use `{command} -H 'Authorization: Bearer TOKEN'`.",
        )
    if settings.tls_cert and not settings.ingress_url:
        raise PenstockError(
            "The ingress speaks TLS, and the console does not know the name in its certificate.",
            f"Set PENSTOCK_INGRESS_URL, or use `{command} --server https://NAME`.",
        )
    made = make_event({"datacontenttype": content_type_of(data), **attributes}, data.encode())
    message = to_message(made)
    client = Client(address_of(kind, name, server))

    def send() -> Sent:
        with client:
            began_s = time.perf_counter()
            answer = client.post(*message)
            return Sent(made.get_id(), answer.status, answer.reason, (time.perf_counter() - began_s) * 1000)

    return send
