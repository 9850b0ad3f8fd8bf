"""The console of a running installation in a real browser: what happens is seen, by everybody who may see it."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from app.local.kafka import EmbeddedKafka
from tests.browser.conftest import LIMIT_S, REBOUND, Tabs, eventually
from tests.support import topologies
from tests.support.installation import Installation
from tests.support.processes import Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

Person = Callable[..., Tabs]

#: Text of senders and subscribers, each a way out of a page.
_HOSTILE = tuple(text for text in topologies.HOSTILE if text.isprintable())
_LETTERS = "#row-Subscription-test-picky td[data-name='Dead letters']"
_OWNERS = """new Set([...document.querySelectorAll("[aria-labelledby='partitions'] tbody td[data-name='Owner']")]
  .map(cell => cell.textContent.trim()))"""

_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
_VIOLATIONS = """axe.run().then(({violations}) => violations.map(
  ({id, nodes}) => [id, nodes.map(({target, failureSummary}) => [target, failureSummary])]))"""

#: Pages of the navigation, and what each shows.
_CONTENT = {
    "/": "Subscriptions and triggers",
    "/map": "Map",
    "/events": "Events read:",
    "/send": "Content type",
    "/letters": "By subscription and reason",
    "/move": "earliest, latest, a time",
    "/audit": "What people did in the console",
}


@dataclass
class World:
    """Two workers: `first` has the controller and asks for no login, `second` asks for the tokens of a file."""

    installation: Installation
    subscriber: ScriptedSubscriber
    kafka: EmbeddedKafka
    first: Worker
    second: Worker
    tokens: Path
    sent: int = 0

    @property
    def url(self) -> str:
        """The console of the first worker."""
        return f"http://127.0.0.1:{self.first.admin_port}"

    @property
    def guarded(self) -> str:
        """The console with a login."""
        return f"http://127.0.0.1:{self.second.admin_port}"

    def page(self, name: str) -> str:
        """The page of a Subscription."""
        return f"{self.url}/subscription/{NAMESPACE}/{name}"

    def send(self, type_: str = "any", **changes: object) -> None:
        """An event, stored when this returns."""
        self.sent += 1
        event = {"specversion": "1.0", "id": f"e{self.sent}", "source": "/test", "type": type_, **changes}
        headers = {"Content-Type": "application/cloudevents+json"}
        request = urllib.request.Request(
            self.installation.url(self.first), json.dumps(event).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            assert answer.status == 202

    def allow(self, *tokens: str) -> None:
        """Who may log in."""
        rows = [f"- name: {token}\n  sha256: {hashlib.sha256(token.encode()).hexdigest()}\n" for token in tokens]
        self.tokens.write_text("".join(rows) or "[]\n")


@pytest.fixture(scope="module")
def world(kafka_of_file: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    installation = Installation(kafka_of_file.bootstrap, folder, partitions=2)
    tokens = folder / "tokens.yaml"
    tokens.write_text("[]\n")
    with ScriptedSubscriber() as subscriber:
        picky = subscriber.script("/picky", says(400, b"not today"))
        stuck = subscriber.script("/stuck", says(503, b"<img src=x onerror=alert(1)>"))
        installation.write(
            [
                Wanted("fine", subscriber.url("/fine")),
                Wanted("picky", picky, delivery={"retry": 0}),
                Wanted("stuck", stuck, "unordered", {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT2S"}),
            ]
        )
        login = {"PENSTOCK_CONSOLE_TOKENS": f"file:{tokens}", "PENSTOCK_CONSOLE": "read"}
        with (
            installation.worker(env={"PENSTOCK_CONSOLE": "write"}) as first,
            installation.worker("dispatcher", controller=False, env=login) as second,
        ):
            first.wait_ready()
            installation.wait_subscribers(first, 3)
            second.wait_ready()
            yield World(installation, subscriber, kafka_of_file, first, second, tokens)


def test_event_that_is_sent_arrives_on_the_overview_and_on_the_map(world: World, person: Person) -> None:
    """The first test: nothing was delivered yet."""
    tabs = person()
    overview, topology = tabs.open(world.url), tabs.open(f"{world.url}/map")
    overview.locator("[data-link=live]").wait_for(state="attached")

    delivered = "document.querySelector(\"#row-Subscription-test-fine td[data-name='Delivered']\").textContent"
    assert overview.evaluate(delivered) == "0/s"

    world.send()

    eventually(overview, f"{delivered} !== '0/s'", "fine was delivered to")
    eventually(topology, "Number(canvas.dataset.moving) > 0", "an edge moves")
    topology.fill("#search", "fine")
    topology.press("#search", "Enter")
    panel = topology.locator("#panel")
    panel.locator("text=The whole path is highlighted").wait_for()
    assert f"{NAMESPACE}/fine" in panel.inner_text()
    panel.locator("text=Open its page").click()
    topology.wait_for_url(world.page("fine"))


def test_text_of_others_is_text_on_every_page(world: World, person: Person) -> None:
    """Before most others: a page shows at most ten events that fail."""
    for text in _HOSTILE[:5]:
        world.send(id=text, source=quote(text, safe="/"), type=text)
    page = person().open(world.page("stuck"))
    page.locator("[aria-labelledby=error]").get_by_text("503").first.wait_for()
    for text in _HOSTILE[:5]:
        page.locator("[aria-labelledby=waits]").get_by_text(text, exact=True).wait_for()

    for path in (f"/subscription/{NAMESPACE}/picky", "/", "/map", f"/?q={quote(_HOSTILE[0])}"):
        page.goto(world.url + path)
        assert page.evaluate("document.querySelectorAll('main img, main iframe, main script:not([src])').length") == 0
    assert page.input_value("#q") == _HOSTILE[0]


def test_dots_run_on_the_lines_of_a_narrow_map(world: World, person: Person) -> None:
    """There, the line of help is below the map."""
    page = person(viewport={"width": 390, "height": 800}).open(f"{world.url}/map")
    page.locator("html[data-ready]").wait_for(state="attached")

    sizes = "[canvas, motion].map(one => { const at = one.getBoundingClientRect(); return [at.y, at.height]; })"
    area, dots = page.evaluate(sizes)
    assert area == dots


def test_dots_stand_still_for_those_who_want_it_so(world: World, person: Person) -> None:
    page = person(reduced_motion="reduce").open(f"{world.url}/map")
    page.locator("html[data-ready]").wait_for(state="attached")

    world.send()

    eventually(page, "Number(canvas.dataset.vertices) > 3 && canvas.dataset.moving !== undefined", "the map is drawn")
    eventually(page, "!document.querySelector('.beside dd').textContent.startsWith('0/s')", "events were accepted")
    assert page.evaluate("canvas.dataset.moving") == "0"


def test_subscriber_that_fails_is_red_in_every_tab(world: World, person: Person) -> None:
    """It has refused every event so far."""
    tabs = person()
    pages = [tabs.open(world.url), tabs.open(f"{world.url}/?q=picky")]
    for page in pages:
        page.locator("[data-link=live]").wait_for(state="attached")
    world.send()

    for page in pages:
        page.locator(f"{_LETTERS}.bad").get_by_text(str(world.sent), exact=True).wait_for()
        assert "Dead letters" in page.inner_text("#row-Subscription-test-picky .state")


def test_letter_is_edited_and_sent_again_and_then_nothing_is_wrong(world: World, person: Person) -> None:
    """While the overview is open in another tab."""
    clerk = world.subscriber.script("/clerk", says(400, b"no amount"), says(200))
    world.installation.resources.write(Wanted("clerk", clerk, delivery={"retry": 0}))
    world.installation.wait_subscribers(world.first, 4, LIMIT_S)
    tabs = person()
    overview = tabs.open(world.url)
    row = overview.locator("#row-Subscription-test-clerk")
    figure = row.locator("td[data-name='Dead letters']")
    row.get_by_text("Ready", exact=True).wait_for()
    world.send(data={"amount": 1})
    overview.locator("#row-Subscription-test-clerk .bad").get_by_text("1", exact=True).wait_for()
    assert "Dead letters" in row.locator(".state").inner_text()

    page = tabs.open(world.url + (figure.locator("a").get_attribute("href") or ""))
    assert "400" in page.inner_text("[aria-labelledby=groups]")
    page.locator("[aria-labelledby=letters]").get_by_role("link", name=f"e{world.sent}", exact=True).click()
    page.locator("[aria-labelledby=why]").get_by_text("no amount").wait_for()
    assert json.loads(page.input_value("#data")) == {"amount": 1}
    page.fill("#data", '{"amount": 2}')
    page.get_by_role("button", name="Send again").click()

    page.locator("[aria-labelledby=tasks] .ok").get_by_text("Done").wait_for()
    row.locator(".state .ok").get_by_text("Ready", exact=True).wait_for()
    assert figure.inner_text() == "0"
    refused, taken = world.subscriber.requests("/clerk")
    assert (taken.attributes["id"], taken.body) == (refused.attributes["id"], b'{"amount": 2}')
    page.goto(world.page("clerk"))
    page.get_by_role("navigation", name="clerk").get_by_role("link", name="Dead letters").click()
    page.locator("[aria-labelledby=letters] .ok").first.wait_for()


def test_click_explains_one_of_the_newest_events(world: World, person: Person) -> None:
    world.send()
    page = person().open(world.page("fine"))
    offered = page.locator("[name=pick]")
    wait_until("events are offered", lambda: page.reload() is not None and offered.count() > 0, LIMIT_S)
    offered.first.click()
    page.locator("[aria-labelledby=filter] [role=status]").get_by_text("Delivered", exact=True).wait_for()
    assert json.loads(page.input_value("#event"))["specversion"] == "1.0"


def test_session_ends_with_its_token(world: World, person: Person) -> None:
    world.allow("anna")
    tabs = person()
    tabs.refused = True  # 401 of a stream is an error to the browser
    page = tabs.open(world.guarded)

    def log_in() -> bool:
        page.fill("#token", "anna")
        page.click("main button")
        return page.locator("#live").count() > 0 and page.locator("#token").count() == 0

    for _ in range(20):
        if log_in():
            break
        page.wait_for_timeout(1000)  # the file is read again
    page.locator("[data-link=live]").wait_for(state="attached")

    world.allow("bob")

    page.locator("[data-link=lost]").wait_for(state="attached")
    page.reload()
    page.locator("#token").wait_for()


def test_who_guesses_tokens_has_to_wait(world: World, person: Person) -> None:
    tabs = person()
    tabs.refused = True
    page = tabs.open(f"{world.guarded}/login")
    for guess in range(200):
        if "Too many tokens" in page.inner_text("main"):
            break
        page.goto(f"{world.guarded}/login")
        page.fill("#token", f"guess-{guess}")
        page.click("main button")
    assert "Try again in" in page.inner_text("main")


@pytest.fixture
def elsewhere(world: World) -> Iterator[str]:
    """Another site: a page of it frames the console, and one sends its form."""
    form = f'<form method="post" action="{world.page("fine")}"><input name="event"><button>win</button></form>'
    frame = f'<iframe id="it" src="{world.page("fine")}"></iframe>'
    with ScriptedSubscriber() as server:
        for path, text in (("/frame", frame), ("/form", form)):
            server.script(path, says(200, text.encode(), "content-type: text/html"))
        yield server.url("")


def test_another_site_neither_frames_the_console_nor_sends_its_forms(
    world: World, person: Person, elsewhere: str
) -> None:
    tabs = person()
    tabs.refused = True
    page = tabs.open(f"{elsewhere}/frame")
    eventually(page, "window.frames.length === 1", "there is a frame")
    page.wait_for_load_state("networkidle")
    assert all("Partitions" not in (frame.text_content("body") or "") for frame in page.frames)
    assert any("frame-ancestors" in complaint for complaint in tabs.complaints)

    page.goto(f"{elsewhere}/form")
    with page.expect_response(lambda response: response.request.method == "POST") as sent:
        page.click("button")
    assert sent.value.status == 403
    page.locator("text=A page of another site sent this form.").wait_for()


def test_another_name_for_this_address_shows_nothing(world: World, person: Person) -> None:
    tabs = person()
    tabs.refused = True
    page = tabs.open(f"http://{REBOUND}:{world.first.admin_port}/")
    assert f"not at {REBOUND}" in page.inner_text("main")
    assert "fine" not in page.inner_text("body")


def _linked(page: Page, links: str) -> list[str]:
    """Where these links lead to."""
    return list(dict.fromkeys(link.get_attribute("href") or "" for link in page.locator(links).all()))


def test_every_page_is_whole_without_scripts(world: World, person: Person) -> None:
    world.send()
    page = person(java_script_enabled=False).open(world.url)
    assert set(_linked(page, "nav a")) == set(_CONTENT)
    linked = _linked(page, "nav a, tbody th a")
    assert f"/subscription/{NAMESPACE}/fine" in linked

    def letter_is_there() -> bool:
        page.goto(f"{world.url}/letters")
        return page.locator("[aria-labelledby=letters] tbody tr").count() > 0

    wait_until("the letter is shown", letter_is_there, LIMIT_S)
    for path in linked:
        response = page.goto(world.url + path)
        assert response is not None
        assert response.status == 200, path
        assert page.locator("h1, h2").first.is_visible(), path
        assert len(page.inner_text("main")) > 40, path
        assert _CONTENT.get(path, NAMESPACE) in page.inner_text("main"), path
    page.goto(f"{world.url}/map")
    assert page.get_by_role("cell", name=f"{NAMESPACE}/fine").count() > 0
    page.goto(f"{world.url}/events?from=10m")
    assert page.get_by_role("row").get_by_role("link", name=f"e{world.sent}", exact=True).count() == 1


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_against_any_page(world: World, person: Person, scheme: str, width: int) -> None:
    world.send()
    page = person(color_scheme=scheme, viewport={"width": width, "height": 800}).open(world.url)
    page.locator(f"{_LETTERS}.bad").wait_for()
    paths = _linked(page, "nav a, tbody th a")
    for list_ in ("/letters", "/events?from=10m"):
        page.goto(world.url + list_)
        paths += [list_, *_linked(page, "tbody th a[href^='/letter?'], tbody th a[href^='/event?']")[:1]]

    violations = {}
    for url in [*(world.url + path for path in dict.fromkeys(paths)), f"{world.guarded}/login"]:
        page.goto(url)
        page.evaluate(_AXE)
        if violated := page.evaluate(_VIOLATIONS):
            violations[url] = violated
    assert violations == {}


def test_owners_of_a_worker_that_is_killed_are_others(world: World, person: Person) -> None:
    tabs = person()
    page = tabs.open(world.page("fine"))
    eventually(page, f"{_OWNERS}.size === 2", "both workers own a partition")
    world.second.kill()
    eventually(page, f"{_OWNERS}.size === 1", "the worker that is left owns both")


def test_while_kafka_is_stopped_the_pages_say_so_and_then_go_on(world: World, person: Person) -> None:
    """The last test: Kafka is another process afterwards."""
    tabs = person()
    page = tabs.open(world.url)
    page.locator("[data-link=live]").wait_for(state="attached")

    world.kafka.stop()

    page.get_by_text("Kafka does not answer.").wait_for()
    eventually(page, r"/state of [0-9.]+ (s|min) ago/.test(document.getElementById('live').innerText)", "it has an age")
    assert page.locator("#row-Subscription-test-fine").count() == 1
    world.kafka.start(LIMIT_S)
    page.get_by_text("Kafka does not answer.").wait_for(state="detached")
    world.send()
    eventually(page, "document.querySelector('[data-link]').dataset.link === 'live'", "it is live")
