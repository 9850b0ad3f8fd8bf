"""What a metrics page must be like, in the manner of `promtool check metrics`: the text in, sentences of complaint out.

Established names of other projects can be exempted. Does not check values.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

#: Units that are not base units, and abbreviations of base units.
_WRONG_UNITS = frozenset(
    (
        *("ms", "milliseconds", "us", "microseconds", "ns", "nanoseconds", "sec", "secs", "min", "minutes", "hours"),
        *("days", "kb", "kib", "mb", "mib", "kilobytes", "megabytes", "bits", "percent"),
    )
)
_TYPE_WORDS = frozenset(["counter", "gauge", "histogram", "summary", "metric"])
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")
_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_info")


def problems(page: str, exempt: Collection[str] = (), labels_allowed: Mapping[str, int] | None = None) -> list[str]:
    """All that is wrong with a page. `labels_allowed`: label -> how many values it may have; None = do not look."""
    complaints: list[str] = []
    for family in text_string_to_metric_families(page):
        if family.name in exempt:
            continue
        complaints += _of_name(family)
        complaints += _of_labels(family, labels_allowed)
    return [*complaints, *_of_lines(page)]


def _of_name(family: Metric) -> Iterator[str]:
    name, words = family.name, family.name.split("_")
    if not _NAME.fullmatch(name):
        yield f"{name}: is not snake_case"
    if not family.documentation.strip():
        yield f"{name}: has no help text"
    if family.type == "unknown":
        yield f"{name}: has no type"
    if family.type != "counter" and name.endswith("_total"):
        yield f"{name}: ends in _total but is not a counter"
    if family.type in ("gauge", "counter") and name.endswith(("_count", "_sum", "_bucket")):
        yield f"{name}: has a suffix of histograms"
    if family.type in ("histogram", "summary") and words[-1] not in ("seconds", "bytes"):
        yield f"{name}: does not end in a unit"
    for word in sorted(_WRONG_UNITS & {*words}):
        yield f"{name}: {word} is not a base unit"
    if any(unit in words[:-1] for unit in ("seconds", "bytes")) and family.type != "counter":
        yield f"{name}: its unit is not last"
    for word in sorted(_TYPE_WORDS & {*words}):
        yield f"{name}: {word} is its type, not its name"


def _of_labels(family: Metric, allowed: Mapping[str, int] | None) -> Iterator[str]:
    values: dict[str, set[str]] = defaultdict(set)
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label not in ("le", "quantile"):
                values[label].add(value)
    for label, seen in values.items():
        if allowed is not None and label not in allowed:
            yield f"{family.name}: label {label} is not one of those agreed"
        elif allowed is not None and len(seen) > allowed[label]:
            yield f"{family.name}: label {label} has {len(seen)} values"
        for value in sorted(seen):
            if "://" in value or _UUID.search(value) or len(value) > 300:
                yield f"{family.name}: label {label} has the unbounded value {value[:80]!r}"


def _of_lines(page: str) -> Iterator[str]:
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    for series, count in Counter(line.rpartition(" ")[0] for line in lines).items():
        if count > 1:
            yield f"{series}: is there {count} times"
    heads = [line.split(" ")[2] for line in page.splitlines() if line.startswith("# TYPE ")]
    for name in re.findall(r"^# TYPE (\w+) counter$", page, re.MULTILINE):
        if not name.endswith("_total"):
            yield f"{name}: a counter does not end in _total"
    for name, count in Counter(heads).items():
        if count > 1:
            yield f"{name}: its type is given {count} times"
    typed = {*heads} | {head + suffix for head in heads for suffix in _SUFFIXES}
    for name in sorted({re.split(r"[{ ]", line)[0] for line in lines} - typed):
        yield f"{name}: has no type"
