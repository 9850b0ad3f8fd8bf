"""Registers our web driver with Faust: `httptools://`."""

from __future__ import annotations

from tables.faust_support import register_web_driver


def install() -> None:
    """Call this before the Faust app is created. May be called again."""
    register_web_driver("httptools", "web.http.driver:Web")
