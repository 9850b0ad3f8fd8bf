"""The data for the page's scripts: the page's graph as JSON in a block that the browser does not execute.

Empty fields are left out; figures have seven significant digits. All text has passed `shown.visible`, and the block
does not contain `<`, so that no text of a sender can end it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from analytics.topology.model.document import Finding
from analytics.topology.report import words
from analytics.topology.report.icons import ICONS
from analytics.topology.report.pagegraph import Item, Line, PageGraph
from knative import shown

#: Characters that must not be in an HTML script block, and those that scripts formerly took for line ends.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def page_data(graph: PageGraph, findings: Sequence[Finding]) -> str:
    """Returns the text of the block. `findings`: those with a card in the page, in the page's order."""
    return as_text(page_values(graph, findings))


def page_values(graph: PageGraph, findings: Sequence[Finding]) -> dict[str, Any]:
    """Returns what the scripts of the map get."""
    return {
        "groups": [{"label": group.label, "shared": group.shared, "size": group.size} for group in graph.groups],
        "vertices": [_vertex(item, len(findings)) for item in graph.items],
        "edges": [_edge(line) for line in graph.lines],
        "findings": [
            {
                "title": shown.visible(finding.title),
                "severity": finding.severity.value,
                "rule": shown.visible(finding.rule, 60),
            }
            for finding in findings
        ],
        "words": {
            "kinds": dict(words.KINDS),
            "flows": dict(words.FLOWS),
            "healths": dict(words.HEALTHS),
            "severities": dict(words.SEVERITIES),
        },
        "icons": dict(ICONS),
    }


def as_text(values: Mapping[str, Any]) -> str:
    """Returns JSON without `<`."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _vertex(item: Item, findings: int) -> dict[str, Any]:
    return _filled(
        {
            "anchor": item.anchor,
            "kind": item.kind,
            "label": item.label,
            "short": item.short if item.short != item.label else None,
            "group": item.group,
            "health": item.health.value,
            "message": item.message,
            "roles": [words.KINDS.get(role, role) for role in item.roles] if len(item.roles) > 1 else None,
            "rate": _figure(item.rate),
            "bytes": _figure(item.bytes_rate),
            "lag": item.lag,
            "island": item.island if item.island > 1 else None,
            "details": item.details,
            "findings": [place for place in item.findings if place < findings],
            "severity": item.severity.value if item.severity else None,
            "count": item.stands_for if item.stands_for > 1 or item.kind == "rest" else None,
        }
    )


def _edge(line: Line) -> dict[str, Any]:
    return _filled(
        {
            "source": line.source,
            "target": line.target,
            "kind": line.kind,
            "health": line.health.value,
            "rate": _figure(line.rate),
            "bytes": _figure(line.bytes_rate),
            "events": line.events,
            "lag": line.lag,
            "failures": line.failures,
            "p50": _figure(line.latency_p50_s),
            "p99": _figure(line.latency_p99_s),
            "details": line.details,
            "count": line.stands_for if line.stands_for > 1 else None,
            "loop": line.loop or None,
        }
    )


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and value not in ("", (), [])}


def _figure(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.7g}")
