"""The report page in a real browser: it starts, responds to mouse and keys, logs no errors and makes no requests.

No times here: how fast it is, is measured by benchmarks/analytics_report.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Topology
from analytics.topology.questions import impact
from analytics.topology.report import render
from analytics.topology.report.pagegraph import gather
from analytics.topology.report.tables import ROWS_MAX, tables
from tests.support import topologies
from tests.support.chromium import Chromium, Page
from tests.support.planted_faults import faulty

Open = Callable[..., Page]
_LIMIT_S = 180.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def shop_page(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("shop") / "shop.html"
    path.write_text(render(topologies.shop()), encoding="utf-8")
    return browser.open(path, theme="dark")


@pytest.fixture
def shop(shop_page: Page) -> Iterator[Page]:
    """The page of the shop, loaded once; a test leaves it with nothing chosen."""
    yield shop_page
    shop_page.evaluate("panel.hidden || panel.querySelector('.shut').click()")
    assert shop_page.complaints == []
    assert shop_page.requests == []


@pytest.fixture
def load(browser: Chromium, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a topology; at the end, no page may have complained or asked for anything."""
    pages: list[Page] = []

    def opened(topology: Topology, **options: object) -> Page:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(render(topology), encoding="utf-8")
        pages.append(browser.open(path, **options))  # type: ignore[arg-type]
        return pages[-1]

    yield opened
    for page in pages:
        page.evaluate("1")  # what the browser still had to say comes before the answer
        assert page.complaints == []
        assert page.requests == []


def wait(page: Page, expression: str) -> None:
    """Until it is true in the page."""
    end_s = time.monotonic() + _LIMIT_S
    while not page.evaluate(expression):
        assert time.monotonic() < end_s, f"never true: {expression}"
        time.sleep(0.03)


def panel(page: Page) -> str:
    """What the panel beside the map says; "" = it is shut."""
    text: str = page.evaluate("panel.hidden ? '' : panel.textContent")
    return text


def canvas(page: Page, name: str) -> int:
    """A count of what is drawn: boxes, lines, lit."""
    return int(page.evaluate(f"canvas.dataset.{name} ?? 0"))


def write(page: Page, text: str) -> None:
    for letter in text:
        page.press(letter)


def middle_of_canvas(page: Page) -> tuple[float, float]:
    page.evaluate("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
    # The page learns of it by an event of the next frame; the map takes a click before that for one beside its boxes.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    x, y = page.evaluate("(b => [b.x + b.width / 2, b.y + (b.height - 22) / 2])(canvas.getBoundingClientRect())")
    return x, y


def test_map_shows_everything_and_links_of_findings_light_whole_paths(shop: Page) -> None:
    topology, page = topologies.shop(), shop

    assert canvas(page, "boxes") == len(topology.vertices)
    assert canvas(page, "lines") == len(topology.edges)
    assert panel(page) == ""
    page.evaluate("[...document.querySelectorAll('#details a')].find(a => a.textContent === 'orders/priced').click()")
    assert "orders/priced" in panel(page)
    assert "The whole path is highlighted: fed by 3 sources" in panel(page)
    assert "orders/reprice" in panel(page)
    assert 0 < canvas(page, "lit") < len(topology.vertices)
    answer = impact(topology, next(vertex for vertex in topology.vertices if vertex.id == "channel:orders/priced"))
    for title, rows in (("Upstream", answer.upstream), ("Downstream", answer.downstream)):
        listed = page.evaluate(
            f"[...panel.querySelectorAll('.reached')].find(e => e.textContent.startsWith('{title}')).textContent"
        )
        assert listed.startswith(f"{title}: {len(rows)} vertices, {max(row.hops for row in rows)} hops at most")
        assert all(row.label in listed for row in rows)
    assert "shipping/print-labels3 hops · subscription · failed · 0/s · lag 41,320" in listed
    assert canvas(page, "lit") == 1 + len({row.id for row in (*answer.upstream, *answer.downstream)})
    page.evaluate("document.querySelectorAll('[data-finding]')[1].click()")
    assert "Events go in a loop" in panel(page)
    assert canvas(page, "lit") == 4


def test_page_can_be_used_by_keyboard_alone(shop: Page) -> None:
    page = shop

    page.press("/")
    write(page, "dlq priced")
    assert page.evaluate("document.activeElement.id + ' ' + search.getAttribute('aria-expanded')") == "search true"
    page.press("ArrowDown")
    page.press("ArrowUp")
    page.press("Enter")
    assert "orders/priced" in panel(page)
    assert "DLQ topic" in panel(page)
    assert page.evaluate("said.textContent") == "orders/priced.dlq, DLQ topic"
    page.evaluate("canvas.focus()")
    for key in ("ArrowLeft", "+", "-", "0", "Escape"):
        page.press(key)
    assert panel(page) == ""


def test_search_puts_the_exact_name_first(load: Open) -> None:
    """Also where longer names that begin so are more important: `channel-1` before `channel-16`."""
    page = load(topologies.large(1_000))

    for query, first in (("channel-1", "/channel-1"), ("CHANNEL-16", "/channel-16")):
        page.evaluate("search.value = ''; search.focus()")
        write(page, query)
        label = page.evaluate("hits.querySelector('[role=option] bdi').textContent")
        assert label.endswith(first)


def test_first_view_can_be_read_without_zoom(load: Open) -> None:
    """Names are at least 9.8 px high; a map that does not fit then is shown in part, and `Fit` shows all of it."""
    for topology in (topologies.quickstart(), topologies.shop(), topologies.large(400)):
        for width in (1280, 390):
            page = load(topology, width=width)
            size = "canvas._cyreg.cy.zoom() * parseFloat(canvas._cyreg.cy.nodes('[image]').style('font-size'))"
            assert page.evaluate(size) >= 9.8
            page.evaluate("document.getElementById('fit').click()")
            inside = "(b => b.x1 >= 0 && b.y1 >= 0 && b.x2 <= canvas.clientWidth && b.y2 <= canvas.clientHeight)"
            assert page.evaluate(f"{inside}(canvas._cyreg.cy.elements().renderedBoundingBox())")
            assert "is a part of the map" not in page.evaluate("hint.textContent")


def test_wide_window_opens_with_the_whole_map(load: Open) -> None:
    """Also a map that is taller than the window; the panel of what is chosen at its end stays in sight."""
    inside = "(b => b.x1 >= 0 && b.y1 >= 0 && b.x2 <= canvas.clientWidth && b.y2 <= canvas.clientHeight)"
    tall = build(faulty().inputs(), LocalEngine())
    for topology in (topologies.quickstart(), topologies.shop(), tall):
        page = load(topology, width=1280, height=800)
        assert page.evaluate(f"{inside}(canvas._cyreg.cy.elements().renderedBoundingBox())")
    assert page.evaluate("canvas.clientHeight > innerHeight")
    page.evaluate("scrollTo({top: canvas.getBoundingClientRect().bottom + scrollY - innerHeight, behavior: 'instant'})")
    page.evaluate("void (cy => cy.nodes('[image]').max(n => n.position('y')).ele.emit('tap'))(canvas._cyreg.cy)")
    wait(page, "!panel.hidden")
    assert page.evaluate("(b => b.top >= 0 && b.top < innerHeight / 2)(panel.getBoundingClientRect())")


def test_critical_loop_is_red(shop: Page) -> None:
    """All four lines of it, and no other."""
    colour = "(c => c._cyreg.cy.edges('.critical').map(e => e.style('line-color')).join(' '))(canvas)"
    red = shop.evaluate("getComputedStyle(document.querySelector('.stroke.critical path')).stroke")
    numbers = red[red.index("(") : red.index(")")].replace(" ", "")
    assert shop.evaluate(colour).replace(" ", "").count(numbers) == 4


def test_each_finding_has_a_line_over_the_map(shop: Page) -> None:
    """The first of them, the worst first; a click leads to all about it."""
    lines = shop.evaluate("[...document.querySelectorAll('.brief li')].map(l => l.textContent.trim())")
    titles = [finding.title for finding in topologies.shop().findings]
    assert [line.split(None, 1)[1] for line in lines] == titles[:8]
    above = "document.querySelector('.brief').getBoundingClientRect().bottom"
    assert shop.evaluate(f"{above} < canvas.getBoundingClientRect().top")
    shop.evaluate("document.querySelector('.brief a').click()")
    wait(shop, "location.hash === '#finding-0'")
    shop.evaluate("location.hash = ''")


def test_health_is_in_sight_on_a_small_screen(load: Open) -> None:
    page = load(topologies.shop(), width=390)
    for table in ("vertices", "edges"):
        cell = f"document.querySelector('#table-{table} tbody .swatch').closest('td')"
        page.evaluate(f"document.getElementById('table-{table}').scrollIntoView({{behavior: 'instant'}})")
        wait(page, f"{cell}.getBoundingClientRect().width > 0")
        assert page.evaluate(f"{cell}.getBoundingClientRect().right") <= 390


def test_namespaces_open_and_close_by_mouse(load: Open) -> None:
    page = load(topologies.quickstart(), width=390)

    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("collapse.click()")
    assert canvas(page, "boxes") == 1
    x, y = middle_of_canvas(page)
    page.click(x, y)
    wait(page, "!panel.hidden")
    assert "default" in panel(page)
    assert "namespace" in panel(page)
    page.evaluate("[...panel.querySelectorAll('button')].find(b => b.textContent === 'Open').click()")
    assert canvas(page, "boxes") == 7
    page.evaluate("document.getElementById('rates').click()")
    assert canvas(page, "lines") == 6


def test_thousands_start_collapsed_and_what_is_asked_for_is_shown(load: Open) -> None:
    topology = topologies.large(5_000)
    page = load(topology)

    assert canvas(page, "boxes") <= 80
    assert page.evaluate("[collapse.checked, idle.checked].join()") == "true,true"
    page.evaluate("search.focus()")
    write(page, "channel-16")
    page.press("Enter")
    assert "/channel-16" in panel(page)
    assert canvas(page, "boxes") > 80
    page.evaluate("collapse.click()")
    assert canvas(page, "boxes") <= 80
    page.evaluate("collapse.click(); idle.click()")
    assert 80 < canvas(page, "boxes") <= 500


def test_rows_made_by_scripts_equal_those_of_the_page(load: Open) -> None:
    topology = topologies.large(ROWS_MAX + 100)
    graph = gather(topology)
    page = load(topology)
    cells_of = "r => [...r.cells].map(c => c.textContent.trim())"
    rows = f"[...document.querySelectorAll('#table-vertices tbody tr')].map({cells_of})"
    names: list[list[str]] = page.evaluate(rows)

    cells_by_name = {row.cells[0].text: row.cells for row in tables(topology, graph)[0].rows}
    assert len(names) == ROWS_MAX
    page.evaluate("document.querySelectorAll('#table-vertices thead button')[4].click()")
    made: list[list[str]] = page.evaluate(rows)
    assert len(made) == 100
    assert page.evaluate("document.querySelectorAll('#table-vertices thead th')[4].ariaSort") == "descending"
    compared = 0
    for texts in made:
        cells = cells_by_name.get(texts[0])
        if cells:
            assert texts == [f"{cell.text} {cell.note}".strip() for cell in cells]
            compared += 1
    assert compared > 50
    page.evaluate("[...document.querySelectorAll('.pager button')].at(1).click()")
    assert len(page.evaluate(rows)) == 100


def test_short_tables_sort_in_place(shop: Page) -> None:
    page = shop
    column = "[...document.querySelectorAll('#table-vertices tbody tr')].map(r => r.cells[0].textContent.trim())"

    page.evaluate("document.querySelector('#table-vertices thead button').click()")
    names: list[str] = page.evaluate(column)
    page.evaluate("document.querySelector('#table-vertices thead button').click()")
    assert page.evaluate(column) == names[::-1]
    assert len(names) == len(topologies.shop().vertices)


def test_colours_follow_the_system_until_they_are_chosen(shop: Page) -> None:
    page = shop
    ground = "getComputedStyle(document.body).backgroundColor"

    dark = page.evaluate(ground)
    page.evaluate("theme.click()")
    assert page.evaluate("theme.ariaLabel") == "Theme: Light"
    assert page.evaluate(ground) != dark
    page.evaluate("theme.click()")
    assert page.evaluate(ground) == dark
    page.evaluate("theme.click()")  # back to the system's: it is remembered for files of the same browser


def test_text_of_senders_stays_text(load: Open) -> None:
    page = load(topologies.hostile())

    assert canvas(page, "boxes") == 1 + len(topologies.HOSTILE)
    for place in range(len(topologies.HOSTILE)):
        page.evaluate(f"document.querySelectorAll('[data-finding]')[{place}].click()")
    page.evaluate("document.querySelectorAll('#panel li button').forEach(b => b.isConnected && b.click())")
    assert page.evaluate("document.querySelectorAll('img, #panel script, iframe').length") == 0
    assert page.evaluate("document.scripts.length") == 5


def test_without_scripts_and_on_paper_there_are_the_tables_and_how_to_get_a_picture(load: Open, shop: Page) -> None:
    parts = "['.still', '.stage', '.legend', '#table-vertices']"
    visibility = f"{parts}.map(s => document.querySelector(s).checkVisibility()).join()"

    assert shop.evaluate(visibility) == "false,true,true,true"
    shop.call("Emulation.setEmulatedMedia", media="print")
    assert shop.evaluate(visibility) == "true,false,false,true"
    shop.call("Emulation.setEmulatedMedia", media="")
    assert load(topologies.shop(), javascript=False).evaluate(visibility) == "true,false,false,true"


def test_address_of_a_vertex_opens_the_page_with_it(load: Open) -> None:
    topology = topologies.quickstart()
    item = next(item for item in gather(topology).items if item.label == "default/picky")
    page = load(topology, fragment=f"#{item.anchor}")

    assert "default/picky" in panel(page)
    assert "p99 118 ms" in panel(page)


def test_empty_topology_is_a_page_too(load: Open) -> None:
    page = load(topologies.empty())

    assert "The map is empty." in page.evaluate("document.querySelector('#map').textContent")
