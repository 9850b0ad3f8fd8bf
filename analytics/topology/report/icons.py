"""Icons for the kinds of vertices: strokes in a square of 16 by 16, for the map and the legend."""

from __future__ import annotations

from collections.abc import Mapping

ICONS: Mapping[str, str] = {
    "source": "M2.5 8h8M7.5 4.5 11 8l-3.5 3.5M14 3v10",
    "channel": "M4.5 4h7a2 4 0 0 1 0 8h-7a2 4 0 0 1 0-8zM4.5 4a2 4 0 0 1 0 8",
    "broker": "M8 5.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4zM8 1.8v4M8 10.2v4M1.8 8h4M10.2 8h4",
    "subscription": "M4.2 2.2h7.6v11.6L8 10.6l-3.8 3.2z",
    "trigger": "M2 2.8h12L9.6 8.4v4.4l-3.2 1.4V8.4z",
    "subscriber": "M9.5 2.8h4v10.4h-4M2 8h7.5M6.3 4.8 9.5 8l-3.2 3.2",
    "reply-target": "M6 2.5 2.5 6 6 9.5M2.5 6H10a3.6 3.6 0 0 1 0 7.2H7",
    "dead-letter-sink": "M2 9l2-6h8l2 6v4.2H2zM2 9h4l.8 1.8h2.4L10 9h4",
    "dlq": "M2 2.8h12v3.4H2zM3 6.2v7h10v-7M6.4 9h3.2",
    "event-type": "M2.5 3h11v10h-11zM5 6.2h6M8 6.2v4.6",
    "group": "M2.2 2.2h7v7h-7zM9.2 6h4.6v7.8H6V9.2",
    "rest": "M3.2 8h.01M8 8h.01M12.8 8h.01",
}
