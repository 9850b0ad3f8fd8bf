"""The configs of ingress and of its web driver, from the settings of the worker."""

from __future__ import annotations

from app.settings.fields import MIB
from app.settings.load import Settings
from web.http.config import DriverConfig
from web.ingress.view import IngressConfig


def driver_config(settings: Settings) -> DriverConfig:
    """Returns the limits of connections and requests."""
    return DriverConfig(
        event_bytes_max=settings.event_bytes_max,
        header_bytes_max=settings.header_bytes_max,
        header_count_max=settings.headers_max,
        receiving_bytes_max=settings.ingress_bytes_max,
        connections_max=settings.connections_max,
        header_timeout_s=settings.header_timeout_s,
        body_idle_s=settings.body_timeout_s,
        keepalive_idle_s=settings.idle_timeout_s,
        # Read of a rejected request and dropped: a client with a body of ten times the limit still reads its 413.
        linger_bytes_max=max(8 * MIB, 12 * settings.event_bytes_max),
    )


def ingress_config(settings: Settings) -> IngressConfig:
    """Returns what ingress holds at once."""
    return IngressConfig(
        inflight_max=settings.ingress_inflight_max,
        bytes_max=settings.ingress_bytes_max,
        event_bytes_max=settings.event_bytes_max,
    )
