"""The overview: what it selects, in which order, and its sums."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from app.operations.contract_snapshot import Contract
from knative.contract.records import BROKER, TRIGGER, Channel, Subscription, WorkerStatus
from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable
from knative.traffic.counts import Counts
from tables.resource_status import resource_statuses
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import SHORT_S, Window
from tests.support.console import CHANNEL, SUBSCRIPTION, MemoryReads, worker
from tests.support.console_acts import MemoryActs
from web.console.limits import Limits
from web.console.page import Ask, Choices
from web.console.pages.overview import overview
from web.console.rows import Level, Row
from web.console.safety import Mode
from web.console.state import State

NOW_S = time.time()
BROKER_ = Channel("b1", 1, "shop", "orders", "bt", "bt.dlq", 1, kind=BROKER)
TRIGGER_ = Subscription(
    "t1", 1, "shop", "pay", "b1", "orders", "bt", "bt.dlq", 1, "g", Addressable("http://pay/"), kind=TRIGGER
)


def _state(*workers: WorkerStatus, **changes: object) -> State:
    here = MemoryReads((CHANNEL, BROKER_), (SUBSCRIPTION, TRIGGER_), workers)
    contract = Contract(tuple(here.channels), tuple(here.subscriptions), tuple(here.workers))
    resources = tuple(resource_statuses(contract, NOW_S))
    state = State("penstock", NOW_S, NOW_S, False, resources, tuple(workers), {}, None)
    return replace(state, **changes)  # type: ignore[arg-type]


def _ask(state: State, query: dict[str, str] | None = None, limits: Limits | None = None) -> Ask:
    return Ask(state, MemoryReads(), Mode.READ, "", limits or Limits(), MemoryActs(), query=query or {})


def _names(table: object) -> list[tuple[str, str]]:
    assert isinstance(table, list)
    rows: list[Row] = table
    return [(row.name, row.word) for row in rows]


def _both(stats: SubscriptionStats | None = None) -> WorkerStatus:
    served = {**worker().subscriptions, **worker(TRIGGER_).subscriptions}
    return worker(subscriptions=served, stats={} if stats is None else {"t1": stats})


@pytest.mark.parametrize(
    ("workers", "letters", "order"),
    [
        ([_both()], {}, [("billing", "Ready"), ("pay", "Ready")]),
        ([_both()], {"shop/trigger:pay": 2}, [("pay", "Dead letters"), ("billing", "Ready")]),
        (
            [_both(SubscriptionStats(retrying=1))],
            {"demo/billing": 1},
            [("billing", "Dead letters"), ("pay", "Retrying")],
        ),
        ([worker()], {}, [("pay", "Unknown"), ("billing", "Ready")]),
        ([], {}, [("billing", "Unknown"), ("pay", "Unknown")]),
    ],
)
def test_worst_come_first(workers: list[WorkerStatus], letters: dict[str, int], order: list[tuple[str, str]]) -> None:
    assert _names(overview(_ask(_state(*workers, letters=letters)))["subscriptions"]) == order


@pytest.mark.parametrize(
    ("query", "subscriptions", "channels"),
    [
        ({}, 2, 2),
        ({"namespace": "shop"}, 1, 1),
        ({"namespace": "nowhere"}, 0, 0),
        ({"q": " BILL "}, 1, 0),
        ({"q": "orders"}, 2, 2),
        ({"q": "trigger"}, 1, 1),
        ({"show": "worse"}, 1, 1),
        ({"show": "worse", "namespace": "demo"}, 0, 0),
    ],
)
def test_query_selects(query: dict[str, str], subscriptions: int, channels: int) -> None:
    values = overview(_ask(_state(worker()), query))
    assert [len(_names(values[name])) for name in ("subscriptions", "channels")] == [subscriptions, channels]
    assert values["namespaces"] == Choices([("demo", "demo"), ("shop", "shop")], 2)


def test_rows_above_the_limit_are_left_out_and_counted() -> None:
    values = overview(_ask(_state(worker()), limits=Limits(rows_max=1)))
    assert (len(_names(values["subscriptions"])), len(_names(values["channels"])), values["left_out"]) == (1, 1, 2)


def test_rates_are_of_the_last_minute_and_the_series_of_full_windows() -> None:
    start = int(NOW_S) // SHORT_S * SHORT_S
    accepted, delivered = Window(0, Counts(events=30)), Window(0, Counts(delivered=12))
    rows = {
        (SHORT_S, start - SHORT_S): {
            ("demo", "orders", ""): accepted.encode(),
            ("demo", "orders", "billing"): delivered.encode(),
            ("shop", "broker:orders", "trigger:pay"): delivered.encode(),
        },
        (SHORT_S, start): {("demo", "orders", ""): accepted.encode()},  # still grows: it does not count yet
    }
    values = overview(_ask(_state(_both(), traffic=HeldRows(rows, NOW_S))))
    totals, incoming, outgoing = values["totals"], values["in_series"], values["out_series"]
    assert isinstance(totals, dict)
    assert isinstance(incoming, list)
    assert isinstance(outgoing, list)

    assert (totals["in"], totals["out"]) == (0.5, pytest.approx(0.4))
    assert (incoming[-1], outgoing[-1], sum(incoming)) == (3.0, 2.4, 3.0)


def test_rates_are_not_known_where_traffic_is_not_counted() -> None:
    values = overview(_ask(_state(worker(), traffic=None)))
    assert isinstance(totals := values["totals"], dict)
    assert isinstance(rows := values["subscriptions"], list)

    assert (totals["in"], totals["out"], rows[0].flow.per_s) == (None, None, None)


def test_dead_letters_that_are_not_counted_yet_are_not_none() -> None:
    totals = overview(_ask(_state(worker(), letters=None)))["totals"]
    assert isinstance(totals, dict)
    assert totals["letters"] is None


def test_levels_are_in_order() -> None:
    assert [level.style for level in sorted(Level)] == ["bad", "unknown", "warn", "ok", "idle"]
