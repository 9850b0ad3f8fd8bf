"""The map of now: what is on it, with which figures, and what is wrong with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.operations.console import live_map
from app.operations.console.live_map import map_of
from app.operations.contract_snapshot import Contract
from knative.contract.records import Channel, Subscription, WorkerStatus
from knative.delivery.policy import Addressable
from knative.errors import UsageError
from knative.traffic.counts import Counts
from tables.resource_status import resource_statuses
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import SHORT_S, Window
from tests.support.console import CHANNEL, SUBSCRIPTION, worker
from web.console.state import State

_AT_S = 1_795_264_204.0  # four seconds into a window
_END = 1_795_264_200
_ECHO = replace(SUBSCRIPTION, uid="s2", name="echo", group="kafka.s2", reply=Addressable("http://orders.demo/"))


def _rows(*windows: tuple[int, Subscription | None, Counts]) -> HeldRows:
    rows: dict[tuple[int, int], dict[tuple[str, str, str], bytes]] = {}
    for start, subscription, counts in windows:
        name = (CHANNEL.namespace, CHANNEL.unique_name, "" if subscription is None else subscription.unique_name)
        rows.setdefault((SHORT_S, start), {})[name] = Window(1, counts).encode()
    return HeldRows(rows, _AT_S)


def _state(
    traffic: HeldRows | None,
    channels: tuple[Channel, ...] = (CHANNEL,),
    subscriptions: tuple[Subscription, ...] = (SUBSCRIPTION,),
    workers: tuple[WorkerStatus, ...] | None = None,
) -> State:
    present = (replace(worker(), time=_AT_S),) if workers is None else workers
    resources = tuple(resource_statuses(Contract(channels, subscriptions, present), _AT_S))
    return State("penstock", _AT_S, _AT_S, False, resources, present, {}, traffic)


def _edges(data: bytes) -> dict[tuple[str, str], Any]:
    values = json.loads(data)
    labels = [vertex["label"] for vertex in values["vertices"]]
    return {(labels[edge["source"]], labels[edge["target"]]): edge for edge in values["edges"]}


def test_rates_are_those_of_the_last_minute_of_full_windows() -> None:
    view = map_of(
        _state(
            _rows(
                (_END - 70, None, Counts(events=9_000)),  # before the minute
                (_END - 60, None, Counts(events=300)),
                (_END - 10, None, Counts(events=300)),
                (_END, None, Counts(events=9_000)),  # not full yet
                (_END - 10, SUBSCRIPTION, Counts(delivered=120, dead=6, retried=12)),
            )
        )
    )

    assert (view.accepted_per_s, view.delivered_per_s) == (10.0, 2.0)
    edges = _edges(view.data)
    assert edges["demo/orders", "demo/billing"]["rate"] == 2.1  # 126 settled
    delivers = edges["demo/billing", "http://billing/"]
    assert (delivers["rate"], delivers["failures"], delivers["health"]) == (2.0, 18, "degraded")
    assert view.edges[0].health == "degraded"  # the table shows the worst first


def test_vertices_lead_to_their_pages_and_senders_are_not_on_the_map() -> None:
    vertices = json.loads(map_of(_state(_rows((_END - 10, None, Counts(events=3))))).data)["vertices"]

    pages = {vertex["label"]: vertex.get("page") for vertex in vertices}
    assert pages["demo/orders"] == "/channel/demo/orders"
    assert pages["demo/billing"] == "/subscription/demo/billing"
    assert pages["http://billing/"] is None
    assert "source" not in {vertex["kind"] for vertex in vertices}


@pytest.mark.parametrize(
    ("letters", "counts", "health", "message"),
    [
        (None, None, "idle", None),
        ({}, None, "idle", None),
        ({"demo/billing": 1}, None, "degraded", "1 dead letter, not redriven"),
        ({"demo/billing": 3}, Counts(delivered=9), "degraded", "3 dead letters, not redriven"),
        ({"demo/billing": 3}, Counts(retried=2), "degraded", "2 retries"),
        ({"demo/other": 3}, None, "idle", None),
    ],
)
def test_dead_letters_of_before_the_minute_degrade_as_in_the_overview(
    letters: dict[str, int] | None, counts: Counts | None, health: str, message: str | None
) -> None:
    windows = () if counts is None else ((_END - 10, SUBSCRIPTION, counts),)
    state = replace(_state(_rows((_END - 10, None, Counts(events=3)), *windows)), letters=letters)

    vertices = {vertex["label"]: vertex for vertex in json.loads(map_of(state).data)["vertices"]}
    billing = vertices["demo/billing"]

    assert (billing["health"], billing.get("message")) == (health, message)
    assert vertices["demo/orders"]["health"] == "ok"


def test_map_finds_what_the_report_finds_but_nothing_that_a_minute_cannot_tell() -> None:
    """A channel that gets nothing for a minute is not without senders, and what is late is not lost."""
    quiet = Channel("c9", 1, "demo", "quiet", "t9", "t9.dlq", 2, ("quiet.demo",))
    traffic = _rows((_END - 10, None, Counts(events=50_000)), (_END - 10, SUBSCRIPTION, Counts(delivered=1)))
    view = map_of(_state(traffic, (CHANNEL, quiet), (SUBSCRIPTION, _ECHO)))

    titles = [finding.title for finding in view.findings]
    assert "Events of demo/orders come back to it" in titles
    assert "demo/echo is not ready" in titles
    assert "demo/quiet has no subscription" in titles
    assert "http://billing/ gets the same events more than once" in titles
    assert len(titles) == 4
    assert [finding.severity for finding in view.findings] == ["critical", "critical", "warning", "info"]


def test_without_the_packages_of_reports_the_map_is_whole_and_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = _state(_rows((_END - 10, None, Counts(events=3))))
    whole = map_of(state)

    def missing(*_: object) -> None:
        raise UsageError("numpy is not installed.")

    monkeypatch.setattr(live_map, "need", missing)
    view = map_of(state)

    assert view.findings == ()
    assert view.note is not None
    assert "pip install -e '.[report]'" in view.note
    assert (view.vertices, len(view.edges)) == (whole.vertices, len(whole.edges))


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (lambda state: replace(state, now_s=state.now_s + 1, at_s=state.at_s + 1), True),
        (lambda state: replace(state, traffic=_rows((_END - 10, None, Counts(events=4)))), False),
    ],
)
def test_version_changes_with_the_data_only(change: Callable[[State], State], stays: bool) -> None:
    """Pages ask for data again when it changes."""
    state = _state(_rows((_END - 10, None, Counts(events=3))))

    assert (map_of(change(state)).version == map_of(state).version) is stays


def test_without_windows_rates_are_those_of_the_workers() -> None:
    view = map_of(_state(None))

    assert view.vertices == 4
    assert view.accepted_per_s is None


def test_without_a_worker_that_is_the_finding() -> None:
    old = replace(worker(), time=time.time() - 900_000_000)

    assert [finding.title for finding in map_of(_state(None, workers=(old,))).findings] == [
        "No worker runs: nothing is delivered"
    ]
