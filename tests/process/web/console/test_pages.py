"""Pages of one resource, whole."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import aiohttp
import pytest

from knative.contract.records import TRIGGER
from knative.contract.subscription_stats import FailingDelivery, LastError, SubscriptionStats
from knative.filters import from_json
from tests.support.console import CHANNEL, SUBSCRIPTION, MemoryReads, serving_console, worker
from tests.support.console_acts import MemoryActs, stored_event
from web.console.acts import StoredEvent
from web.console.limits import Limits
from web.console.safety import Mode
from web.console.state import PartitionLag

_STATS = SubscriptionStats(
    retrying=1,
    lag=7,
    heads=(FailingDelivery(1, 42, 3, 0.0, "event-<b>9</b>"),),
    last_error=LastError(
        1.0, 500, "the subscriber answered 500", "<script>alert(1)</script>", "http://billing/", 1, 42
    ),
)
_PARTITIONS = [PartitionLag(0, 0, 0.0, 12, 0, 12, 0, None), PartitionLag(1, 7, 65.0, 42, 0, 49, 3, None)]


async def _text(url: str, path: str) -> str:
    async with aiohttp.ClientSession() as client, client.get(url + path) as answer:
        assert answer.status == 200, path
        return await answer.text()


def _words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


@pytest.mark.asyncio
async def test_subscription_shows_what_waits_for_what() -> None:
    reads = MemoryReads(workers=[worker(stats={"s1": _STATS})], letters={"demo/billing": 5}, partitions=_PARTITIONS)
    async with serving_console(reads) as url:
        text = await _text(url, "/subscription/demo/billing")

    words = _words(text)
    assert "<script>alert" not in text
    assert "event-&lt;b&gt;9&lt;/b&gt;" in text
    assert "1 42 3 now worker-1" in words  # partition, offset, attempts, next attempt
    assert "1 worker-1 7 65 s 42 3 49" in words  # partition, owner, waiting, oldest, committed, settled above, end
    assert "Reason the subscriber answered 500" in words
    assert "penstock lag demo/billing" in words
    assert "Dead letters 5" in words
    assert "retry 0 default" in words


@pytest.mark.asyncio
async def test_while_kafka_is_away_the_last_state_is_shown_with_its_age() -> None:
    old = worker()
    reads = MemoryReads(workers=[replace(old, time=old.time - 90)], kafka_away=True)
    async with serving_console(reads) as url:
        for path in ("/", "/subscription/demo/billing", "/channel/demo/orders"):
            words = _words(await _text(url, path))
            assert re.search(r"Kafka does not answer. This page shows the state of 9\d s ago", words), path
            assert "Ready" in words
            assert "Unknown" not in words


@pytest.mark.asyncio
async def test_filter_is_explained_in_a_console_that_only_shows() -> None:
    prefix = from_json({"prefix": {"type": "order."}})
    trigger = replace(SUBSCRIPTION, kind=TRIGGER, filter=prefix)
    reads = MemoryReads(subscriptions=[trigger], workers=[worker(trigger)])
    async with serving_console(reads, Mode.READ) as url, aiohttp.ClientSession() as client:
        path = f"{url}/trigger/demo/billing"
        async with client.get(path) as answer:
            (token,) = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())

        async def explain(event: str, **changes: str) -> tuple[int, str]:
            data = {"form_token": token, "event": event, **changes}
            async with client.post(path, data=data, headers={"Origin": url}) as answer:
                return answer.status, _words(await answer.text())

        event = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "%s"}'
        status, words = await explain(event % "order.paid")
        assert status == 200
        assert "Delivered The event matches: prefix: type = " in words
        assert "Not delivered The event does not match" in (await explain(event % "invoice"))[1]
        assert "is not a valid CloudEvent" in (await explain('{"id": "1"}'))[1]
        assert "The event is empty." in (await explain(" "))[1]
        assert (await explain(event % "x", form_token="another"))[0] == 403


@pytest.mark.asyncio
async def test_one_of_the_newest_events_is_explained_by_a_click() -> None:
    trigger = replace(SUBSCRIPTION, kind=TRIGGER, filter=from_json({"prefix": {"type": "order."}}))
    reads = MemoryReads(subscriptions=[trigger], workers=[worker(trigger)])
    events = [stored_event(number, type="order.paid" if number else "<invoice>") for number in range(9)]
    acts = MemoryActs(events=events)
    async with serving_console(reads, Mode.READ, acts=acts) as url, aiohttp.ClientSession() as client:
        path = f"{url}/trigger/demo/billing"
        async with client.get(path) as answer:
            text = await answer.text()
            (token,) = re.findall(r'name="form_token" value="([^"]+)"', text)

        async def pick(place: str) -> str:
            data = {"form_token": token, "event": "what was written", "pick": place}
            async with client.post(path, data=data, headers={"Origin": url}) as answer:
                assert answer.status == 200
                return _words(await answer.text())

        assert re.findall(r'name="pick" value="([^"]+)"', text) == [f"0/{number}" for number in range(5)]
        assert "Delivered The event matches: prefix: type = " in await pick("0/8")
        filtered = await pick("0/0")
        assert "Not delivered The event does not match" in filtered
        assert '"type": "<invoice>"' in unescape(filtered)
        for place in ("0/99", "x/y", "1"):
            gone = await pick(place)
            assert "This event is no longer in the topic." in gone
            assert "what was written" in gone


@pytest.mark.asyncio
async def test_channel_shows_its_address_and_its_readers() -> None:
    async with serving_console() as url:
        words = _words(await _text(url, "/channel/demo/orders"))
        of_reader = _words(await _text(url, "/subscription/demo/billing"))
    annotated = replace(SUBSCRIPTION, concurrency=7, delivery_own=("concurrency",))
    async with serving_console(MemoryReads(subscriptions=[annotated])) as url:
        of_annotated = _words(await _text(url, "/subscription/demo/billing"))

    assert "order ordered default concurrency 100 default when retries end dead-letter default" in of_reader
    assert "order ordered default concurrency 7 annotation" in of_annotated
    assert "TopicReady ContractPublished Addressable SubscribersReady" in words
    assert "ReferencesResolved AddedToChannel ChannelReady" in of_reader
    assert f"Path {CHANNEL.path} Host orders.demo" in words
    assert "penstock send --channel demo/orders" in words
    assert "billing demo · subscription Ready" in words


@pytest.mark.asyncio
async def test_pages_of_resources_lead_to_what_can_be_done_with_them() -> None:
    trigger = replace(SUBSCRIPTION, uid="t1", name="pay", kind=TRIGGER)
    reads = MemoryReads(
        subscriptions=(SUBSCRIPTION, trigger), workers=[worker()], letters={SUBSCRIPTION.label: 3, trigger.label: 2}
    )
    async with serving_console(reads) as url:
        paths = ("/", "/subscription/demo/billing", "/trigger/demo/pay", "/channel/demo/orders")
        links = {
            path: re.findall(r'href="(/(?:letters|move|events|send)\?[^"]*)"', await _text(url, path)) for path in paths
        }
        for path in {path for targets in links.values() for path in targets}:
            await _text(url, path)

    letters, of_trigger = "/letters?subscription=demo%2Fbilling", "/letters?subscription=demo%2Ftrigger%3Apay"
    assert links == {
        "/": [of_trigger, letters],  # the worst first
        "/subscription/demo/billing": [letters, "/move?of=Subscription/demo/billing"],
        "/trigger/demo/pay": [of_trigger, "/move?of=Trigger/demo/pay"],
        "/channel/demo/orders": [
            "/events?of=KafkaChannel/demo/orders",
            "/send?of=KafkaChannel/demo/orders",
            of_trigger,
            letters,
        ],
    }


@pytest.mark.asyncio
async def test_map_has_its_data_at_an_address_of_its_own_and_a_table_without_scripts() -> None:
    async with serving_console() as url, aiohttp.ClientSession() as client:
        text = await _text(url, "/map")
        async with client.get(f"{url}/map.json") as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert answer.headers["Cache-Control"] == "no-store"
            data = await answer.json()

    assert {vertex["label"] for vertex in data["vertices"]} >= {"demo/orders", "demo/billing", "http://billing/"}
    assert "demo/billing delivers http://billing/" in _words(text)
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", text)


@pytest.mark.asyncio
async def test_data_of_the_map_needs_a_session() -> None:
    async with (
        serving_console(tokens=["ada"]) as url,
        aiohttp.ClientSession() as client,
        client.get(f"{url}/map.json") as answer,
    ):
        assert answer.status == 401
        assert "billing" not in await answer.text()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path",
    ["/subscription/demo/other", "/trigger/demo/billing", "/broker/demo/orders", "/channel/demo/%3Cscript%3E"],
)
async def test_what_is_not_there_is_a_page_that_says_so(path: str) -> None:
    async with serving_console() as url, aiohttp.ClientSession() as client, client.get(url + path) as answer:
        text = await answer.text()

    assert answer.status == 404
    assert " does not exist." in text
    assert "<script>" not in text


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/nope", "/subscription/demo", "/nope/a/%3Cscript%3E", "/nope.json"])
async def test_address_that_is_not_known_is_a_page_that_says_so(path: str) -> None:
    async with serving_console() as url, aiohttp.ClientSession() as client, client.get(url + path) as answer:
        text = await answer.text()

    assert (answer.status, answer.content_type) == (404, "text/html")
    assert "There is no page at this address." in text
    assert "Content-Security-Policy" in answer.headers
    assert "<nav" in text
    assert "<script>" not in text


@pytest.mark.asyncio
async def test_event_without_attributes_has_a_page_too() -> None:
    """Others may write to the topic of a channel."""
    bare = StoredEvent("t", 0, 0, 1.0, None, {}, {}, b"x", 1)
    async with serving_console(acts=MemoryActs(events=[bare])) as url:
        for path in ("/event?of=KafkaChannel/demo/orders&at=0/0", "/events", "/subscription/demo/billing"):
            assert "(no id)" in await _text(url, path)


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/letters", "/move", "/events", "/send"])
async def test_form_suggests_as_many_names_as_a_page_shows(path: str) -> None:
    """Of 10,000 Triggers, a list to choose from would be a page of a megabyte."""
    numbers = range(Limits().rows_max + 1)
    channels = [replace(CHANNEL, uid=f"c{number}", namespace=f"n{number}") for number in numbers]
    subscriptions = [
        replace(SUBSCRIPTION, uid=f"s{number}", namespace=f"n{number}", channel_uid=f"c{number}") for number in numbers
    ]
    listed = {}
    for count in (len(numbers), len(numbers) - 1):
        async with serving_console(MemoryReads(channels[:count], subscriptions[:count], [worker()])) as url:
            page = await _text(url, path)
        (field,) = re.findall(r'<(input|select) id="(?:namespace|subscription|of)"', page)
        listed[field] = len(re.findall(r'<option value="[^"]*n[0-9]', page))
    assert listed == {"input": Limits().rows_max, "select": Limits().rows_max}
