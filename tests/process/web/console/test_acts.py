"""Pages with acts, whole, over values that a test gives: escaped, only with a token, only in the mode `write`."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from html import unescape
from typing import NoReturn
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest

from knative.contract.seeks import Move
from knative.errors import NotReadyError, PenstockError, UsageError
from tests.support.console import CHANNEL, SUBSCRIPTION, MemoryReads, serving_console, words
from tests.support.console_acts import MemoryActs, stored_event
from web.console.acts import Deed, Events, Letter, LetterChoice, LetterGroup, LetterRow, Passage, Task, Verdict
from web.console.limits import Limits
from web.console.safety import Mode

_EVIL = "\"'><script>alert(1)</script>{{1234567*9}}\u202e<img src=x onerror=alert(2)>"
_REF = "t.dlq/0/3"
_ROW = LetterRow(_REF, 1.0, _EVIL, _EVIL, _EVIL, _EVIL, _EVIL, _EVIL, None)
_EVENT = replace(
    stored_event(3, _EVIL.encode(), subject=_EVIL, id=_EVIL, **{_EVIL: _EVIL}), headers={_EVIL: _EVIL}, key=b"\xff<b>"
)
_ACTS = MemoryActs(
    events=[_EVENT],
    rows=[_ROW],
    groups=[LetterGroup(_EVIL, _EVIL, 2, 1, 1.0, 2.0)],
    whole=[Letter(_ROW, _EVENT, _EVIL.encode(), _EVIL, ("data", _EVIL))],
    moved=[Move(0, 10, 4), Move(1, -1, 3)],
    passed=[Passage(SUBSCRIPTION, Verdict.LETTER, _EVIL, _EVIL)],
    audit=[Deed(1.0, _EVIL, _EVIL, _EVIL)],
    running=[
        Task(_EVIL, _EVIL, "redrive", _EVIL, 1.0, None, _EVIL, None, True),
        Task("x", "", "seek", "A seek", 1.0, 2.0, "", _EVIL, False),
    ],
)
_OF = "KafkaChannel/demo/orders"
_EVENT_PAGE = f"/event?of={_OF}&at=0/3"
_LETTER_PAGE = f"/letter?ref={_REF}"
_PAGES = [
    "/letters", f"/letters?subscription={_EVIL}&reason={_EVIL}", _LETTER_PAGE, f"/events?filter={_EVIL}",
    f"/events?of={_OF}&from=10m", f"/events?id={_EVIL}", _EVENT_PAGE, "/send", "/audit",
    "/move?of=Subscription/demo/billing&to=-6",
]  # fmt: skip


def _acts(topic: str = CHANNEL.topic) -> MemoryActs:
    return replace(_ACTS, events=[replace(_EVENT, topic=topic)], done=[])


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
async def test_texts_of_senders_are_texts(mode: Mode) -> None:
    async with serving_console(acts=_acts(), mode=mode) as url, aiohttp.ClientSession() as client:
        for path in _PAGES:
            async with client.get(url + path) as answer:
                text = await answer.text()
            assert answer.status == 200, (path, words(text))
            assert "<script>alert" not in text, path
            assert "<img src=x" not in text, path
            assert "11111103" not in words(text), path
            assert not re.search(r'value="[^"]*"\'', text), path


@pytest.mark.asyncio
async def test_data_is_shown_where_people_may_write() -> None:
    for mode, is_shown in ((Mode.READ, False), (Mode.WRITE, True)):
        async with serving_console(acts=_acts(), mode=mode) as url, aiohttp.ClientSession() as client:
            for path in (_EVENT_PAGE, _LETTER_PAGE):
                async with client.get(url + path) as answer:
                    text = words(await answer.text())
                assert ("PENSTOCK_CONSOLE_BODIES=true" in text) is not is_shown, path
                assert ("Edit and send again" in text) is (is_shown and path == _LETTER_PAGE)
            async with client.get(url + _EVENT_PAGE) as answer:
                assert ("curl" in await answer.text()) is is_shown


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "form", "done"),
    [
        (
            "/letters",
            {"do": "redrive", "scope": "picked", "pick-1": _REF, "rate": "5/s", "limit": "9"},
            ("redrive", LetterChoice(refs=(_REF,)), "5/s", "9"),
        ),
        (
            "/letters?subscription=demo/billing&reason=400",
            {"do": "redrive", "scope": "all", "pick-1": _REF, "rate": "", "limit": ""},
            ("redrive", LetterChoice("demo/billing", "400"), "", ""),
        ),
        (_LETTER_PAGE, {"attributes": "{}", "data": "x"}, ("edit", _REF, "{}", "x")),
        ("/move?of=Subscription/demo/billing&to=-6", {}, ("seek", "demo/billing", "-6")),
        (
            "/send",
            {"of": _OF, "type": "t", "source": "/s", "data": "x\r\ny"},
            ("send", _OF, {"type": "t", "source": "/s"}, "x\ny"),
        ),
        ("/audit", {"task": "an-id"}, ("stop", "an-id")),
    ],
)
async def test_form_acts_once_with_a_token_and_never_in_a_console_that_shows(
    path: str, form: dict[str, str], done: tuple[object, ...]
) -> None:
    acts = _acts()
    async with serving_console(acts=acts) as url, aiohttp.ClientSession() as client:
        async with client.get(url + path) as answer:
            token = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())[0]

        async def post(origin: str = url, **changes: str) -> int:
            data = {"form_token": token, **form, **changes}
            async with client.post(url + path, data=data, headers={"Origin": origin}, allow_redirects=False) as answer:
                return answer.status

        assert await post("http://elsewhere") == 403
        assert await post(form_token="another") == 403
        assert acts.done == []
        assert await post() in (200, 303)
        assert acts.done == [(*done, "everybody on this machine")]
    async with serving_console(acts=acts, mode=Mode.READ) as url, aiohttp.ClientSession() as client:
        async with client.post(url + path, data=form, headers={"Origin": url}) as answer:
            assert answer.status == 403
        assert len(acts.done) == 1


@pytest.mark.asyncio
async def test_what_a_form_has_started_is_seen_at_once() -> None:
    """A live part of the same state, from before the form, must not be drawn over the page."""
    acts = MemoryActs()

    async def live(client: aiohttp.ClientSession, address: str) -> str:
        async with client.get(address, headers={"Accept": "text/event-stream"}) as stream:
            return words((await stream.content.readuntil(b"\n\n")).decode())

    async with serving_console(acts=acts, limits=Limits(every_s=60)) as url, aiohttp.ClientSession() as client:
        assert "A redrive" not in await live(client, f"{url}/audit")
        acts.running = [Task("x", "anna", "redrive", "A redrive", 1.0, None, "", None, can_stop=True)]
        async with client.get(f"{url}/audit") as answer:
            (token,) = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())
        data = {"form_token": token, "task": "x"}
        async with client.post(f"{url}/audit", data=data, headers={"Origin": url}, allow_redirects=False) as answer:
            assert answer.status == 303
        assert "A redrive" in await live(client, f"{url}/audit")


@dataclass
class _Slow(MemoryActs):
    """Acts whose events are read when `go` is set."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    reads: int = 0

    async def tail(self, topic: str, filter_: str) -> Events | None:
        """Those that there were when the reading began."""
        self.reads += 1
        events = Events(self.events, len(self.events))
        await self.go.wait()
        return events


@pytest.mark.asyncio
async def test_tabs_that_show_the_same_are_rendered_once_and_never_from_before_a_form() -> None:
    acts, stream = _Slow(), {"Accept": "text/event-stream"}
    async with serving_console(acts=acts, limits=Limits(every_s=60)) as url, aiohttp.ClientSession() as client:
        tabs = [await client.get(f"{url}/events", headers=stream) for _ in range(5)]
        async with client.get(f"{url}/send") as answer:
            (token, *_) = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())
        assert acts.reads == 1
        acts.events = [_EVENT]
        data = {"form_token": token, "task": "x"}
        async with client.post(f"{url}/audit", data=data, headers={"Origin": url}, allow_redirects=False) as answer:
            assert answer.status == 303
        acts.go.set()
        for tab in tabs:
            assert "event-0-3" not in (await tab.content.readuntil(b"\n\n")).decode()
            tab.close()
        async with client.get(f"{url}/events", headers=stream) as tab:
            assert "event-0-3" in (await tab.content.readuntil(b"\n\n")).decode()
        assert acts.reads == 2


@dataclass
class _Away(MemoryActs):
    """Kafka does not answer."""

    async def _fail(self, *_: object) -> NoReturn:
        raise NotReadyError("Kafka does not answer.", "Try again.")

    tail = stored = with_id = event = passages = letters = letter = moves = deeds = _fail  # type: ignore[assignment]
    redrive = send_edited = seek = send = stop_task = _fail  # type: ignore[assignment]


@pytest.mark.asyncio
async def test_while_kafka_is_away_pages_say_so_and_do_nothing() -> None:
    async with serving_console(acts=_Away()) as url, aiohttp.ClientSession() as client:
        for path in _PAGES:
            async with client.get(url + path) as answer:
                text = await answer.text()
            is_whole = path.startswith(("/event?", "/letter?"))
            assert answer.status == (503 if is_whole else 200), path
            assert "Kafka does not answer. " in words(text) or path == "/send", path
        async with client.get(f"{url}/send") as answer:
            (token, *_) = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())
        for path, form in (("/letters", {"do": "redrive", "scope": "all"}), (_PAGES[-1], {}), ("/send", {"of": _OF})):
            data = {"form_token": token, **form}
            async with client.post(url + path, data=data, headers={"Origin": url}, allow_redirects=False) as answer:
                assert (answer.status, "Kafka does not answer." in words(await answer.text())) == (200, True), path


@pytest.mark.asyncio
@pytest.mark.parametrize(("kind", "status"), [(UsageError, 400), (NotReadyError, 503), (PenstockError, 500)])
async def test_problem_has_the_status_of_its_kind(kind: type[PenstockError], status: int) -> None:
    class Failing(MemoryActs):
        """No letter can be read."""

        async def letter(self, ref: str) -> Letter | None:
            raise kind("A newer Penstock wrote it.", "Use that version.")

    async with (
        serving_console(acts=Failing()) as url,
        aiohttp.ClientSession() as client,
        client.get(url + _LETTER_PAGE) as answer,
    ):
        assert (answer.status, "A newer Penstock wrote it." in await answer.text()) == (status, True)


@pytest.mark.asyncio
async def test_dry_run_sends_nothing_and_asks() -> None:
    acts = _acts()
    async with serving_console(acts=acts) as url, aiohttp.ClientSession() as client:
        async with client.get(f"{url}/letters") as answer:
            token = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())[0]

        async def dry(**form: str) -> str:
            data = {"form_token": token, "do": "dry", "rate": "5/s", "limit": "", **form}
            async with client.post(f"{url}/letters", data=data, headers={"Origin": url}) as answer:
                return await answer.text()

        assert "No letter is picked" in await dry(scope="picked")
        text = await dry(scope="picked", **{"pick-1": _REF})
    assert "1 would be redriven" in words(text)
    assert f'name="pick-1" value="{_REF}"' in text
    assert acts.done == []


@pytest.mark.asyncio
async def test_long_filter_is_whole_in_the_live_address_and_in_the_command() -> None:
    query = urlencode({"filter": "type='" + "x" * 700 + "\u202e'"})
    async with (
        serving_console(acts=_acts()) as url,
        aiohttp.ClientSession() as client,
        client.get(f"{url}/events?{query}") as answer,
    ):
        text = await answer.text()
    (address,) = re.findall(r'sse-connect="([^"]+)"', text)
    # It also has the channel that was chosen here: the busiest one may be another one later.
    assert parse_qs(urlsplit(unescape(address)).query) == {**parse_qs(query), "of": ["KafkaChannel/demo/orders"]}
    assert "x" * 700 + "\\u202e" in unescape(re.findall(r'title="Prints the same">([^<]+)<', text)[0])


@pytest.mark.asyncio
@pytest.mark.parametrize("headers", [{}, {"Accept": "text/event-stream"}])
async def test_tail_that_cannot_be_read_says_why_and_keeps_its_rows(headers: dict[str, str]) -> None:
    for events in ([stored_event(3, subject="row-of-before")], []):
        acts = MemoryActs(events=events, problem="The topic t cannot be read.")
        async with (
            serving_console(acts=acts) as url,
            aiohttp.ClientSession() as client,
            client.get(f"{url}/events", headers=headers) as answer,
        ):
            text = words((await answer.content.readuntil(b"be read.")).decode())
            if events:
                text += words((await answer.content.readuntil(b"read: 1.")).decode())
        assert text.count("The topic t cannot be read.") == 1
        assert ("row-of-before" in text) is bool(events)
        assert "There are no events yet" not in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("readers", "passages", "said"),
    [
        (0, 0, "Where it went 0 subscriptions Look again Nothing reads from this channel."),
        (1, 0, "Where it went 1 subscription Look again Retention has just removed the event from its topic."),
        (3, 1, "2 more are not shown."),
    ],
)
async def test_where_it_went_says_what_is_left_out(readers: int, passages: int, said: str) -> None:
    reads = MemoryReads(
        subscriptions=[replace(SUBSCRIPTION, uid=f"s{each}", name=f"b{each}") for each in range(readers)]
    )
    acts = replace(_acts(), passed=_ACTS.passed[:passages])
    async with (
        serving_console(reads, acts=acts) as url,
        aiohttp.ClientSession() as client,
        client.get(url + _EVENT_PAGE) as answer,
    ):
        assert said in words(await answer.text())


@pytest.mark.asyncio
async def test_groups_that_are_left_out_count_too() -> None:
    acts = replace(_acts(), groups=[LetterGroup("demo/billing", f"reason {each}", 2, 0, 1.0, 2.0) for each in range(5)])
    limits = Limits(rows_max=3)
    async with serving_console(acts=acts, limits=limits) as url, aiohttp.ClientSession() as client:
        async with client.get(f"{url}/letters") as answer:
            text = await answer.text()
        token = re.findall(r'name="form_token" value="([^"]+)"', text)[0]
        assert "2 more groups are not shown." in words(text)
        data = {"form_token": token, "do": "dry", "scope": "all"}
        async with client.post(f"{url}/letters", data=data, headers={"Origin": url}) as answer:
            text = words(await answer.text())
    assert "10 would be redriven" in text
    assert "2 more groups are not shown, and would be redriven too." in text


@pytest.mark.asyncio
async def test_letter_is_redriven_once() -> None:
    redriven = Letter(replace(_ROW, redriven_at="2026-01-01T00:00:00Z"), _EVENT, None, "", ("data", ""))
    acts = MemoryActs(whole=[redriven])
    async with (
        serving_console(acts=acts) as url,
        aiohttp.ClientSession() as client,
        client.get(url + _LETTER_PAGE) as answer,
    ):
        text = words(await answer.text())
    assert "A letter is redriven once. To deliver it again, send a new event ." in text
    assert "Edit and send again" not in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("is_whole", "empty", "dry"),
    [
        (True, "No dead letters An event becomes", "All of these letters were redriven before."),
        (False, "Not all dead letters could be read", "Not all letters could be read."),
    ],
)
async def test_only_what_was_read_whole_is_empty(is_whole: bool, empty: str, dry: str) -> None:
    acts = MemoryActs(is_whole=is_whole)
    async with serving_console(acts=acts) as url, aiohttp.ClientSession() as client:
        async with client.get(f"{url}/letters") as answer:
            assert empty in words(await answer.text())
        async with client.get(f"{url}/send") as answer:
            token = re.findall(r'name="form_token" value="([^"]+)"', await answer.text())[0]
        data = {"form_token": token, "do": "dry", "scope": "all"}
        async with client.post(f"{url}/letters", data=data, headers={"Origin": url}) as answer:
            assert dry in words(await answer.text())


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/event?at=0/9", "The topic t has no event 0/9."),
        ("/event?at=x", "The topic t has no event x."),
        ("/letter?ref=t.dlq/0/9", "There is no dead letter t.dlq/0/9."),
        ("/events?of=Broker/no/one", "The channel or broker Broker/no/one does not exist."),
    ],
)
async def test_what_is_not_there_says_so(path: str, says: str) -> None:
    async with (
        serving_console(acts=_acts()) as url,
        aiohttp.ClientSession() as client,
        client.get(url + path) as answer,
    ):
        assert answer.status == 404
        assert says in words(await answer.text())
