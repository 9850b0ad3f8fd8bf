"""The report page: one HTML file with everything in it, for a browser without network, for print, for screen readers.

    Topology --gather--> PageGraph --+--> findings, tables          (HTML; also in print and without JavaScript)
                                     +--> data for the map's scripts (JSON)     --templates/page.html.j2--> page

Two protections against text that senders choose: all text goes through the templates' escaping (or the JSON block's),
and a Content-Security-Policy has the hashes of the page's scripts and style sheet, so that nothing else runs, loads or
connects. The page says only what is in the topology.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analytics.topology.compare import Difference
from analytics.topology.model.document import SEVERITIES, Finding, Flow, Kind, Topology
from analytics.topology.model.totals import total
from analytics.topology.report import words
from analytics.topology.report.icons import ICONS
from analytics.topology.report.pagedata import page_data
from analytics.topology.report.pagegraph import DETAILS_MAX, HEALTHS, PageGraph, gather
from analytics.topology.report.tables import ROWS_MAX, tables
from knative import shown
from knative.topology_map import BASE, STYLE, TEMPLATES, VENDORED, in_scope
from knative.topology_map import script as map_script

#: Kinds whose count is in the head of the page, if there are any.
_COUNTED = (Kind.SOURCE, Kind.CHANNEL, Kind.BROKER, Kind.SUBSCRIPTION, Kind.TRIGGER)

_HERE = Path(__file__).parent

_ASSETS = _HERE / "assets"
_EARLY_SCRIPT = _ASSETS / "theme.js"  #: runs in the head, before anything is drawn

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Assets:
    """The inlined files, and the policy that allows them."""

    style: str
    early: str
    vendored: tuple[str, ...]
    script: str
    policy: str


@dataclass(frozen=True, slots=True)
class ShownObject:
    """A vertex that a finding is about."""

    label: str
    link: str
    kind: str


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding with its texts formatted."""

    place: int
    severity: str
    word: str
    title: str
    rule: str
    evidence: tuple[str, ...]
    remedy: str
    objects: tuple[ShownObject, ...]
    more_objects: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure in the head of the page."""

    name: str
    value: str


def render(topology: Topology, difference: Difference | None = None) -> str:
    """Returns the page of a topology, as the text of one HTML file (UTF-8). `difference`: to an earlier run."""
    graph = gather(topology)
    findings = _cards(topology, graph)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            topology=topology,
            graph=graph,
            assets=assets(),
            data=Markup(page_data(graph, topology.findings[: len(findings)])),
            findings=_by_rule(findings),
            brief=findings[:8],  # those with a line above the map
            findings_left=len(topology.findings) - len(findings),
            severities=_severities(topology),
            facts=_facts(topology),
            tables=tables(topology, graph, difference),
            compared=difference is not None,
            healths=[health.value for health in HEALTHS],
            loops=any(line.loop for line in graph.lines),
            kinds=legend(graph),
            icons=ICONS,
            words=words,
            shown=shown,
        )
    )


def legend(graph: PageGraph) -> list[tuple[str, str]]:
    """Returns the icon and the word of each kind that is in the graph."""
    return [(ICONS[kind], words.KINDS[kind]) for kind in Kind if any(item.kind == kind for item in graph.items)]


@cache
def assets() -> Assets:
    """Returns the page's scripts and styles, the vendored scripts, and their hashes."""
    style = _escaped(
        "\n".join(path.read_text("utf-8") for path in (BASE, _ASSETS / "page.css", STYLE, _ASSETS / "parts.css"))
    )
    early = _escaped(in_scope(_EARLY_SCRIPT))
    script = _escaped(map_script(_ASSETS / "tables.js", _ASSETS / "main.js"))
    vendored = tuple(_escaped(path.read_text("utf-8")) for path in VENDORED)
    hashes = " ".join(_hash(text) for text in (early, *vendored, script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Assets(Markup(style), Markup(early), tuple(map(Markup, vendored)), Markup(script), policy)


def _escaped(text: str) -> str:
    """Control characters become escapes, because HTML changes some of them."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([_HERE / "templates", TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": shown.visible,
        "code": _code,
        "count": shown.count,
        "moment": shown.moment,
    }
    return environment


def _code(text: str) -> Markup:
    """Returns the text escaped, with parts between backticks as code."""
    parts = shown.visible(text, shown.SENTENCE_MAX).split("`")
    if len(parts) % 2 == 0:  # an odd number of backticks: not code
        return escape("`".join(parts))
    marked = (Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts))
    return Markup("").join(marked)


def _cards(topology: Topology, graph: PageGraph) -> list[ShownFinding]:
    """Returns the findings that get a card, the worst first (the order of the topology)."""
    return [_finding(place, finding, graph) for place, finding in enumerate(topology.findings[:ROWS_MAX])]


def _finding(place: int, finding: Finding, graph: PageGraph) -> ShownFinding:
    objects = []
    for fromkey in dict.fromkeys(finding.objects[:DETAILS_MAX]):
        if fromkey in graph.places:
            item = graph.items[graph.places[fromkey]]
            objects.append(ShownObject(shown.visible(item.label, 90), item.anchor, words.KINDS[item.kind]))
        else:
            objects.append(ShownObject(shown.visible(fromkey, 90), "", ""))
    return ShownFinding(
        place=place,
        severity=finding.severity.value,
        word=words.SEVERITIES[finding.severity.value],
        title=shown.visible(finding.title),
        rule=shown.visible(finding.rule, 60),
        evidence=finding.evidence[:DETAILS_MAX],
        remedy=finding.remedy,
        objects=tuple(objects),
        more_objects=max(len(finding.objects) - DETAILS_MAX, 0),
    )


def _by_rule(findings: Iterable[ShownFinding]) -> list[tuple[Sequence[ShownFinding], Sequence[ShownFinding]]]:
    """Returns findings grouped by severity and rule: (shown, folded)."""
    rules: dict[tuple[str, str], list[ShownFinding]] = {}
    for finding in findings:
        rules.setdefault((finding.severity, finding.rule), []).append(finding)
    return [(same, []) if len(same) <= 5 else (same[:4], same[4:]) for same in rules.values()]


def _severities(topology: Topology) -> list[tuple[str, str, int]]:
    """Returns (severity, word for the count, count), if the count is not 0."""
    counts = Counter(finding.severity for finding in topology.findings)
    return [
        (severity.value, words.tally(severity.value, counts[severity]), counts[severity])
        for severity in SEVERITIES
        if counts[severity]
    ]


def _facts(topology: Topology) -> list[Fact]:
    kinds = Counter(vertex.kind for vertex in topology.vertices)
    published = total(edge.rate for edge in topology.edges if edge.kind is Flow.PUBLISHES)
    delivered = total(edge.rate for edge in topology.edges if edge.kind is Flow.DELIVERS)
    counted = [
        Fact(shown.plural(kinds[kind], words.KINDS[kind.value]).partition(" ")[2], shown.count(kinds[kind]))
        for kind in _COUNTED
        if kinds[kind]
    ]
    return [
        *counted,
        Fact("events in", shown.rate(published)),
        Fact("deliveries", shown.rate(delivered)),
        Fact("events waiting", shown.count(total(vertex.lag for vertex in topology.vertices))),
    ]
