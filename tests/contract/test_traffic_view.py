"""`GET /traffic` on both web drivers: the page, and a sentence for each wrong question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from knative.traffic.counts import Counts
from tables.kafka.compacted_topic import Record
from tables.traffic_windows.view import TrafficRows
from tables.traffic_windows.windows import LONG_S, SHORT_S, Key, Window
from tests.support.webapp import RunningWeb
from web.pages import traffic

T0 = 1_700_000_040
NOW = T0 + 25.0


def rows() -> TrafficRows:
    traffic_rows = TrafficRows("t", {}, 900, 3600, lambda: NOW)
    channel, settled = Key(SHORT_S, T0 + 20, "ns", "ch"), Key(SHORT_S, T0 + 10, "ns", "ch", "sub")
    window = Window(2, Counts(0, 70, 6, 4, 3, 2, 1), {50: 5, 100: 1})
    traffic_rows.apply(
        [
            Record(channel.encode(), Window(1, Counts(3, 30)).encode()),
            Record(settled.encode(), window.encode()),
            Record(Key(LONG_S, T0 - 60, "ns", "other").encode(), Window(1, Counts(9)).encode()),
        ]
    )
    return traffic_rows


@pytest.fixture(scope="module")
def loaded() -> Iterator[RunningWeb]:
    traffic_rows = rows()
    traffic_rows.caught_up()
    with RunningWeb(lambda app: traffic.register(app, traffic_rows, clock=lambda: NOW)) as web:
        yield web


def ask(web: RunningWeb, query: str = "") -> tuple[int, str, Any]:
    """Status, headers, JSON."""
    wire = web.exchange(f"GET /traffic{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = wire.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), head.decode().lower(), json.loads(body)


def test_page_has_the_windows_of_the_last_minutes(loaded: RunningWeb) -> None:
    status, head, page = ask(loaded)

    assert status == 200
    assert "content-type: application/json" in head
    assert page == {
        "window": "10s",
        "windowSeconds": 10,
        "from": "2023-11-14T22:09:30Z",
        "to": "2023-11-14T22:14:30Z",
        "channels": [
            {
                "namespace": "ns",
                "name": "ch",
                "windows": [{"start": "2023-11-14T22:14:20Z", "accepted": 3, "bytes": 30}],
                "subscriptions": [
                    {
                        "name": "sub",
                        "windows": [
                            {
                                "start": "2023-11-14T22:14:10Z",
                                "delivered": 6,
                                "retried": 4,
                                "deadLettered": 3,
                                "filtered": 2,
                                "ignored": 1,
                                "bytes": 70,
                                "latencySeconds": {"p50": 0.0112, "p95": 1.31, "p99": 1.31},
                            }
                        ],
                    }
                ],
            }
        ],
    }


def test_minutes_and_what_is_asked_for_only(loaded: RunningWeb) -> None:
    assert [row["name"] for row in ask(loaded, "?window=1m")[2]["channels"]] == ["ch", "other"]
    assert [row["name"] for row in ask(loaded, "?window=1m&channel=other&namespace=ns")[2]["channels"]] == ["other"]
    page = ask(loaded, "?last=1&window=1m")[2]
    assert (page["from"], page["to"]) == ("2023-11-14T22:14:00Z", "2023-11-14T22:15:00Z")
    assert [row["name"] for row in page["channels"]] == ["ch"]
    assert ask(loaded, "?namespace=nobody")[2]["channels"] == []


@pytest.mark.parametrize(
    ("channel", "names"),
    [("both", ["both", "broker:both"]), ("broker:both", ["broker:both"]), ("main", ["broker:main"]), ("mai", [])],
)
def test_broker_is_found_by_its_name(channel: str, names: list[str]) -> None:
    traffic_rows = TrafficRows("t", {}, 900, 3600, lambda: NOW)
    for name in ("both", "broker:both", "broker:main"):
        traffic_rows.apply([Record(Key(SHORT_S, T0 + 20, "ns", name).encode(), Window(1, Counts(3, 30)).encode())])
    traffic_rows.caught_up()
    with RunningWeb(lambda app: traffic.register(app, traffic_rows, clock=lambda: NOW)) as web:
        assert [row["name"] for row in ask(web, f"?channel={channel}")[2]["channels"]] == names


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?window=5m", "window='5m' is not a valid window; use 10s or 1m"),
        ("?window=", "window='' is not a valid window"),
        ("?last=0", "last='0' is not a valid number of windows; use 1 to 90 for windows of 10s"),
        ("?last=91", "last='91' is not a valid number"),
        ("?last=-1", "last='-1' is not a valid number"),
        ("?last=ten", "last='ten' is not a valid number"),
        ("?last=99999999999999999999", "is not a valid number"),
        ("?window=1m&last=61", "use 1 to 60 for windows of 1m"),
        ("?chanel=ch", "'chanel' is not a known parameter; use window, last, namespace, channel"),
    ],
)
def test_wrong_question_is_answered_by_a_sentence(loaded: RunningWeb, query: str, says: str) -> None:
    status, _, page = ask(loaded, query)

    assert status == 400
    assert says in page["error"]


def test_before_they_are_read_and_where_there_are_none() -> None:
    with RunningWeb(lambda app: traffic.register(app, rows())) as web:
        status, head, page = ask(web)
    assert (status, page) == (503, {"error": "the traffic windows have not been read yet"})
    assert "retry-after: 1" in head

    with RunningWeb(lambda app: traffic.register(app, None, "not here")) as web:
        assert (ask(web)[0], ask(web)[2]) == (404, {"error": "not here"})
