"""`GET /traffic`: the traffic of each channel and subscription in windows of 10 s or 1 min, for the whole system.

    ?window=10s|1m (10s)   ?last=N (30)   ?namespace=...   ?channel=...

`channel` is the name of a KafkaChannel or a Broker: if both have it, both are shown; `broker:<name>` is the Broker.
Windows without traffic are left out. The current window is included and still grows. `tables/traffic_windows/view`
supplies the windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from faust.web import View

from knative.contract.records import BROKER, unique_name
from knative.timefmt import in_seconds
from knative.traffic import latency_sketch
from knative.traffic.counts import OF_SUBSCRIPTIONS
from tables.traffic_windows.view import Line
from tables.traffic_windows.windows import LONG_S, SHORT_S, Window, start_of

PATH = "/traffic"
SIZES = {"10s": SHORT_S, "1m": LONG_S}
LAST_DEFAULT = 30
_PARAMETERS = ("window", "last", "namespace", "channel")
_FIELDS = {"dead": "deadLettered"}  #: numbers that have another name in the answer
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class Rows(Protocol):
    """The part of `tables/traffic_windows/view` that this page needs."""

    loaded: bool
    problem: str | None
    keep_s: dict[int, int]

    def lines(self, size: int, last: int, namespace: str = "", channels: Collection[str] = ()) -> list[Line]:
        """Returns the last windows by channel and subscription."""


class BadQuery(ValueError):
    """A query parameter is not valid. The message is a sentence."""


def parse_query(query: Mapping[str, str], keep_s: Mapping[int, int]) -> tuple[str, int, str, str]:
    """Returns (window, last, namespace, channel). Raises BadQuery."""
    unknown = sorted(set(query) - set(_PARAMETERS))
    if unknown:
        raise BadQuery(f"{unknown[0]!r} is not a known parameter; use {', '.join(_PARAMETERS)}")
    window = query.get("window", "10s")
    if window not in SIZES:
        raise BadQuery(f"window={window!r} is not a valid window; use {' or '.join(SIZES)}")
    most = keep_s[SIZES[window]] // SIZES[window]
    text = query.get("last", str(min(LAST_DEFAULT, most)))
    last = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= last <= most:
        raise BadQuery(f"last={text!r} is not a valid number of windows; use 1 to {most} for windows of {window}")
    return window, last, query.get("namespace", ""), query.get("channel", "")


def names_of(channel: str) -> tuple[str, ...]:
    """Returns the unique names that a channel of the query may have; none for ""."""
    return (channel, unique_name(BROKER, channel)) if channel else ()


def to_page(window: str, last: int, lines: Sequence[Line], now: float) -> dict[str, Any]:
    """Returns the JSON of the answer: channels, each with its own windows and those of its subscriptions."""
    size = SIZES[window]
    end = start_of(int(now), size) + size
    channels: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        channel = channels.setdefault(
            (line.namespace, line.channel),
            {"namespace": line.namespace, "name": line.channel, "windows": [], "subscriptions": []},
        )
        if line.subscription:
            rows = [_settled(start, counts) for start, counts in sorted(line.windows.items())]
            channel["subscriptions"].append({"name": line.subscription, "windows": rows})
        else:
            channel["windows"] = [_accepted(start, counts) for start, counts in sorted(line.windows.items())]
    return {
        "window": window,
        "windowSeconds": size,
        "from": in_seconds(end - last * size),
        "to": in_seconds(end),
        "channels": list(channels.values()),
    }


def _accepted(start: int, window: Window) -> dict[str, Any]:
    return {"start": in_seconds(start), "accepted": window.counts.events, "bytes": window.counts.bytes}


def _settled(start: int, window: Window) -> dict[str, Any]:
    return {
        "start": in_seconds(start),
        **{_FIELDS.get(name, name): getattr(window.counts, name) for name in OF_SUBSCRIPTIONS},
        "bytes": window.counts.bytes,
        "latencySeconds": {name: _rounded(latency_sketch.quantile(window.latency, q)) for name, q in _QUANTILES},
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.3g}")


class TrafficView(View):
    """The page on a Faust app; `register` binds it to the windows."""

    rows: Rows | None
    why_not: str
    clock: Callable[[], float]
    retry_after_s: int

    async def get(self, request: Any) -> Any:
        """Answers 200 with the windows; 400 for an invalid parameter, 404 without windows, 503 before they are read."""
        rows = self.rows
        if rows is None:
            return self.json({"error": self.why_not}, status=404)
        try:
            window, last, namespace, channel = parse_query(request.query, rows.keep_s)
        except BadQuery as problem:
            return self.json({"error": str(problem)}, status=400)
        if not rows.loaded:
            why = f": {rows.problem}" if rows.problem else ""
            headers = {"retry-after": str(self.retry_after_s)}
            return self.json({"error": f"the traffic windows have not been read yet{why}"}, status=503, headers=headers)
        lines = rows.lines(SIZES[window], last, namespace, names_of(channel))
        return self.json(to_page(window, last, lines, type(self).clock()))


def register(
    app: Any, rows: Rows | None, why_not: str = "", clock: Callable[[], float] = time.time, retry_after_s: int = 1
) -> None:
    """Serve the view on a Faust app. `rows` None: this process has no windows, and `why_not` is the sentence why."""
    bound = {"rows": rows, "why_not": why_not, "clock": staticmethod(clock), "retry_after_s": retry_after_s}
    app.page(PATH, name="traffic")(type("BoundTrafficView", (TrafficView,), bound))
