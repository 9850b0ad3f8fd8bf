"""The names of figures for people, and their values with units: the same in the page and in the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from knative.shown import UNKNOWN, bytes_rate, count, quantity, rate, seconds

#: Figures of connections and totals, as `analytics/topology/compare` names them.
FIGURES: Mapping[str, str] = {
    "health": "health",
    "rate": "events",
    "failures": "failures",
    "latency_p50_s": "p50",
    "latency_p99_s": "p99",
    "channels": "channels",
    "subscriptions": "subscriptions",
    "events": "events in",
    "bytes_rate": "bytes in",
    "deliveries": "deliveries",
    "delivered_bytes": "bytes out",
    "dead_letters": "dead letters",
    "lag": "waiting",
    "fan_out": "fan-out",
    "fan_out_bytes": "bytes per event",
}


def figure(name: str, value: str | float | None) -> str:
    """Returns the value of one of FIGURES with its unit."""
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    if name.startswith("latency"):
        return seconds(value)
    if name in ("channels", "subscriptions", "lag"):
        return count(value)
    if name in ("fan_out", "fan_out_bytes"):
        return f"{quantity(value)} B" if name == "fan_out_bytes" else quantity(value)
    return bytes_rate(value) if "bytes" in name else rate(value)
