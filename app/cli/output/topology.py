"""The terminal output of `penstock topology`: findings by severity, a summary, differences between two runs.

Texts in a document may be arbitrary (sources), so terminal control sequences are escaped.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from analytics.topology.compare import PARTIAL, Change, Difference
from analytics.topology.exports import plain
from analytics.topology.model.document import LISTED_MAX, SEVERITIES, Finding, Kind, Severity, Topology
from analytics.topology.model.figures import FIGURES, figure
from app.cli.output.time import show_time

if TYPE_CHECKING:
    from rich.console import Console


FINDINGS_MAX = 50
_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def show_topology(topology: Topology) -> None:
    """Print what is in it, then what is wrong with it, the worst first."""
    console = _console()
    _print(console, summary(topology))
    for finding in topology.findings[:FINDINGS_MAX]:
        console.print()
        _show_finding(console, finding)
    console.print()
    if len(topology.findings) > FINDINGS_MAX:
        _print(console, f"... and {len(topology.findings) - FINDINGS_MAX} more; --out or -o json shows all of them.")
    _print(console, verdict(topology.findings))


def summary(topology: Topology) -> str:
    """Returns one line: how much of what there is."""
    kinds = Counter(vertex.kind for vertex in topology.vertices)
    names = {
        Kind.SOURCE: "sources",
        Kind.CHANNEL: "channels",
        Kind.BROKER: "brokers",
        Kind.SUBSCRIPTION: "subscriptions",
        Kind.TRIGGER: "triggers",
        Kind.SUBSCRIBER: "subscribers",
        Kind.EVENT_TYPE: "event types",
    }
    parts = [f"{kinds[kind]} {_plural(name, kinds[kind])}" for kind, name in names.items() if kinds[kind]]
    window = f" over {topology.window.seconds:.0f} s" if topology.window.seconds else ""
    where = f" in namespace {topology.namespace}" if topology.namespace else ""
    tiers = {"windows": "traffic tables", "deltas": "traffic records", "status": "statuses only", "none": "no traffic"}
    part = " in the part of the map that is listed" if topology.partial else ""
    return f"{', '.join(parts) or 'Nothing'}{where}{part}; {tiers[topology.tier]}{window}; engine {topology.engine}."


def verdict(findings: tuple[Finding, ...]) -> str:
    """Returns one line: how many findings of which severity."""
    if not findings:
        return "No findings."
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[severity]} {severity.value}" for severity in SEVERITIES if counts[severity]]
    return f"{len(findings)} {_plural('findings', len(findings))}: {', '.join(parts)}."


def show_difference(difference: Difference) -> None:
    """Print what was added and removed since the older run."""
    console = _console()
    _print(console, f"Since {show_time(difference.before)}:")
    for change in difference.totals:
        _print(console, _change(change, f"namespace {change.id}" if change.id else "all"))
    if difference.partial:
        _print(console, PARTIAL)
    console.print()
    if difference.empty:
        _print(console, "Otherwise nothing is new, gone, or different by half or more.")
        return
    for finding in difference.findings_new:
        console.print()
        _show_finding(console, finding, "new ")
    if difference.findings_new:
        console.print()
    for finding in difference.findings_gone:
        _print(console, f"gone: {finding.severity.value} {finding.title}", "green")
    _names(console, "new", difference.vertices_new)
    _names(console, "gone", difference.vertices_gone)
    _names(console, "new connection", difference.edges_new)
    _names(console, "gone connection", difference.edges_gone)
    for change in difference.changes[: 3 * LISTED_MAX]:
        _print(console, _change(change, change.id))
    if len(difference.changes) > 3 * LISTED_MAX:
        _print(console, f"... and {len(difference.changes) - 3 * LISTED_MAX} more changes; -o json shows all of them.")


def _change(change: Change, where: str) -> str:
    before, after = (figure(change.what, value) for value in (change.before, change.after))
    return f"{FIGURES[change.what]}: {where}: {before}" + (f" → {after}" if before != after else "")


def _names(console: Console, word: str, ids: tuple[str, ...]) -> None:
    for id_ in ids[:LISTED_MAX]:
        _print(console, f"{word}: {id_}")
    if len(ids) > LISTED_MAX:
        _print(console, f"... and {len(ids) - LISTED_MAX} more {word}")


def _show_finding(console: Console, finding: Finding, word: str = "") -> None:
    _print(console, f"{word}{finding.severity.value.upper()} {finding.title}  [{finding.rule}]", finding.severity)
    for line in finding.evidence[:LISTED_MAX]:
        _print(console, f"    {line}")
    if len(finding.evidence) > LISTED_MAX:
        _print(console, f"    ... {len(finding.evidence) - LISTED_MAX} more")
    _print(console, f"    → {finding.remedy}")


def _console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False)


def _print(console: Console, text: str, severity: Severity | str = "") -> None:
    from rich.text import Text

    style = _STYLES[severity] if isinstance(severity, Severity) else severity
    console.print(Text(_plain(text), style=style))


def _plain(text: str) -> str:
    """Works in pieces, because `plain` cuts a long text, and evidence lists paths through many channels."""
    return "".join(plain(part) for part in (text[place : place + 100] for place in range(0, len(text), 100)))


def _plural(name: str, count: int) -> str:
    return name if count != 1 else name[:-1]
