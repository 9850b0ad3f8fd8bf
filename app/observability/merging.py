"""One page of metrics, and one of health, for several processes of one command. Pure.

counters, histograms   added up; `Totals` keeps the sums from falling when a process ends
gauges added up, except those of `_GAUGES`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric

#: Name, help text, type, and samples: name, labels, value. As JSON has it.
Family = Sequence[Any]
Series = tuple[str, tuple[tuple[str, str], ...]]

#: What a gauge of all processes is, if it is not the sum.
_GAUGES: Mapping[str, Callable[[float, float], float]] = {
    "penstock_build_info": max,
    "penstock_changes_not_used": max,
    "penstock_api_server_troubles": max,
    "penstock_dlq_letters": max,
    "penstock_subscription_info": max,
    "penstock_waiting_for_kafka": max,
    "penstock_throttled": max,
    "penstock_oldest_event_timestamp_seconds": min,
    "process_start_time_seconds": min,
    "python_info": max,
}
#: Gauges by their type, which only grow.
_GROWING = ("eventing_kafka_consumed_msg_count", "eventing_kafka_produced_msg_count")


def families(metrics: Iterable[Metric]) -> list[Family]:
    """Returns the metrics in the form in which processes tell each other."""
    return [
        (
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, dict(sample.labels), sample.value) for sample in metric.samples],
        )
        for metric in metrics
    ]


def counters(metrics: Iterable[Family]) -> dict[Series, float]:
    """Returns the samples that only grow while their process runs."""
    return {
        _series(sample, labels): value
        for name, _, kind, samples in metrics
        if _grows(name, kind)
        for sample, labels, value in samples
    }


def _series(sample: str, labels: Mapping[str, str]) -> Series:
    return sample, tuple(sorted(labels.items()))


def _grows(name: str, kind: str) -> bool:
    return kind in ("counter", "histogram") or name in _GROWING


@dataclass(slots=True)
class _Run:
    """What one process has counted: `last`, less `base`, which it had counted before this process knew of it."""

    began_at: float
    base: dict[Series, float]
    last: dict[Series, float]


class Totals:
    """Sums of counters over processes. When a process starts again, its counter begins at 0. A sum that fell would look
    like a reset, and `rate()` would count the whole rest as new. So the counts of a process that has ended stay in the
    sums. When the process that adds up starts again, all sums begin at 0."""

    def __init__(self, began_at: float) -> None:
        """Times are of the system's monotonic clock: when the supervisor forked this process."""
        self._began_at = began_at
        self._gone: dict[Series, float] = {}
        self._runs: dict[int, _Run] = {}

    def take(self, process: int, began_at: float, counted: dict[Series, float]) -> None:
        """Take the counts of another process, which began at `began_at`."""
        run = self._runs.get(process)
        if run is None or run.began_at != began_at:
            for series, value in {} if run is None else _counted(run).items():
                self._gone[series] = self._gone.get(series, 0.0) + value
            run = self._runs[process] = _Run(began_at, counted if began_at < self._began_at else {}, counted)
        # A series that was removed begins again at 0.
        run.base = {series: value for series, value in run.base.items() if counted.get(series, -1.0) >= value}
        run.last = counted

    def sums(self, own: Mapping[Series, float]) -> dict[Series, float]:
        """Returns the sums over all processes, with `own` of this process. A series that no process has any more is
        dropped."""
        sums = dict(own)
        for run in self._runs.values():
            for series, value in _counted(run).items():
                sums[series] = sums.get(series, 0.0) + value
        self._gone = {series: value for series, value in self._gone.items() if series in sums}
        for series, value in self._gone.items():
            sums[series] += value
        return sums


def _counted(run: _Run) -> dict[Series, float]:
    return {series: value - run.base.get(series, 0.0) for series, value in run.last.items()}


def merged(parts: Sequence[Iterable[Family]], sums: Mapping[Series, float]) -> list[Metric]:
    """Returns the metrics of all processes. `parts`: of each that answers; `sums` of all counters."""
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[Series, float]] = {}
    for part in parts:
        for name, text, kind, samples in part:
            metrics.setdefault(name, Metric(name, text, kind))
            rows, rule = values.setdefault(name, {}), _GAUGES.get(name, _sum)
            for sample, labels, value in samples:
                series = _series(sample, labels)
                if _grows(name, kind):
                    rows[series] = sums[series]
                else:
                    rows[series] = rule(rows[series], value) if series in rows else value
    for name, metric in metrics.items():
        for (sample, pairs), value in values[name].items():
            metric.add_sample(sample, dict(pairs), value)
    return list(metrics.values())


def _sum(first: float, second: float) -> float:
    return first + second


def health(
    own: tuple[bool, Mapping[str, Any]],
    others: Mapping[int, tuple[int, Any]],
    words: tuple[str, str],
    *,
    one_is_enough: bool,
) -> tuple[bool, dict[str, Any]]:
    """Returns whether all processes are well (or one, if `one_is_enough`), and the fields of the page: those of the
    first process with this result.

    `others`: number -> status and fields of its page; status 0 = it does not answer, which is bad if one is enough.
    `words`: the status of a process that is well, and of one that is not.
    """
    rows = [{"process": 1, "status": words[not own[0]]}]
    pages: list[tuple[bool, Mapping[str, Any]]] = [own]
    for number, (status, page) in sorted(others.items()):
        rows.append({"process": number, "status": page["status"] if status else "no answer"})
        is_well = status == 200 or (status == 0 and not one_is_enough)
        pages.append((is_well, {name: value for name, value in (page or {}).items() if name != "status"}))
    good = (any if one_is_enough else all)(is_good for is_good, _ in pages)
    fields = next(fields for is_good, fields in pages if is_good is good)
    return good, {**fields, "processes": rows}
