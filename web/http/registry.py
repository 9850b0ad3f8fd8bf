"""Registers our two web drivers with Faust: `httptools://` and `aiohttp://`."""

from __future__ import annotations

from faust.web.drivers import DRIVERS


def install() -> None:
    """Call this before the Faust app is created. May be called again."""
    DRIVERS.aliases["httptools"] = "web.http.driver:Web"
    DRIVERS.aliases["aiohttp"] = "web.http.aiohttp_driver:Web"
