"""Tells Faust our two web drivers by name: `httptools://` and `aiohttp://`. Refuses to choose one: settings do."""

from __future__ import annotations

from faust.web.drivers import DRIVERS


def install() -> None:
    """Call before the Faust app is made; may be called again."""
    DRIVERS.aliases["httptools"] = "web.http.driver:Web"
    DRIVERS.aliases["aiohttp"] = "web.http.aiohttp_driver:Web"
