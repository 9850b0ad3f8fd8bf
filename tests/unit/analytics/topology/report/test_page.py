"""The page as a whole: no text of a sender leaves its place, and nothing but the page's own scripts runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analytics.topology.model.document import Topology
from analytics.topology.report import render
from analytics.topology.report.page import assets
from analytics.topology.report.tables import ROWS_MAX
from knative import shown
from tests.support import topologies
from tests.support.profiles import examples
from tests.unit.analytics.topology.report.page_reader import ReadPage, read_page

SAMPLES: dict[str, Callable[[], Topology]] = {
    "empty": topologies.empty,
    "quickstart": topologies.quickstart,
    "shop": topologies.shop,
    "hostile": topologies.hostile,
    "large": lambda: topologies.large(700),
}
#: What a page that loads nothing has no use for.
LOADING = {"src", "srcset", "action", "formaction", "poster", "data", "background", "style", "srcdoc", "ping"}


@pytest.fixture(scope="module", params=list(SAMPLES))
def page(request: pytest.FixtureRequest) -> ReadPage:
    return read_page(render(SAMPLES[request.param]()))


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_only_scripts_and_styles_with_their_hash_in_the_policy_are_in_it(page: ReadPage) -> None:
    scripts = [text for attributes, text in page.scripts if ("type", "application/json") not in attributes]

    assert len(page.scripts) == len(scripts) + 1
    assert [hash_of(text) for text in scripts] == page.policy["script-src"]
    assert [hash_of(text) for _, text in page.styles] == page.policy["style-src"]
    assert page.policy["default-src"] == page.policy["base-uri"] == page.policy["form-action"] == ["'none'"]
    assert page.policy["img-src"] == ["data:"]
    assert "unsafe" not in str(page.policy)


def test_nothing_loads_runs_or_leads_out_of_it(page: ReadPage) -> None:
    for tag, attributes in page.elements:
        for name, value in attributes:
            assert name not in LOADING, (tag, name)
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "xlink:href"):
                assert (value or "").startswith("#"), (tag, value)
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "iframe", "object", "embed", "base", "form", "img"})


def test_ids_are_unique_and_links_and_labels_have_targets(page: ReadPage) -> None:
    named = [value for _, attributes in page.elements for name, value in attributes if name == "id"]
    reported = {"hits", *named}
    anchors = {f"#{vertex['anchor']}" for vertex in page.data["vertices"]}

    assert len(named) == len(set(named))
    for tag, attributes in page.elements:
        values = dict(attributes)
        if tag == "a":
            assert (values["href"] or "")[1:] in reported or values["href"] in anchors
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            if name in values and values[name] != "panel-title":
                assert values[name] in reported


@examples(40)
@given(st.text(st.characters(), min_size=1, max_size=60))
@example("</script><script>alert(1)</script>")
@example("--><!--<script>")
@example("' onload=alert(1) x='")
@example("{{ 7 * 7 }}{% include 'x' %}")
@example("\x00\x1b[2J\u202e\u2028\ud800\ufffe")
@example("x" * 10_240)
def test_text_of_others_changes_no_structure(text: str) -> None:
    page = read_page(render(_one(text)))

    assert page.skeleton == read_page(render(_one("benign"))).skeleton
    assert [vertex["label"] for vertex in page.data["vertices"] if vertex["kind"] == "source"] == [shown.visible(text)]
    assert "".join(page.text).count(shown.visible(text).strip()) >= 3 or not shown.visible(text).strip()


def _one(text: str) -> Topology:
    """The same structure for every text: one sender, with it in every field."""
    topology = topologies.hostile([text])
    return replace(topology, vertices=tuple(replace(vertex, message="m") for vertex in topology.vertices))


def test_data_of_the_page_holds_no_tag_and_is_plain_json() -> None:
    text = next(text for attributes, text in read_page(render(topologies.hostile())).scripts if attributes)

    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["vertices"]


def test_long_text_is_cut_and_thousands_of_things_are_bounded() -> None:
    many = topologies.hostile([f"{number}{'y' * 10_000}" for number in range(ROWS_MAX + 50)])
    source = render(many)
    page = read_page(source)
    own = len(source) - sum(len(text) for text in (*assets().vendored, assets().script, assets().style))

    assert "y" * (shown.SENTENCE_MAX + 1) not in source
    assert own < 6_500 * len(many.vertices)
    assert sum(1 for tag, _ in page.elements if tag == "article") == ROWS_MAX
    assert "50 more are in" in "".join(page.text)


def test_tables_say_how_many_rows_are_not_in_them() -> None:
    topology = topologies.large(ROWS_MAX + 100)
    page = read_page(render(topology))

    rows = [dict(attributes).get("id", "") or "" for tag, attributes in page.elements if tag == "tr"]
    assert sum(row.startswith("v-") for row in rows) == ROWS_MAX
    assert len(page.data["vertices"]) == len(topology.vertices)
    assert f"The first {ROWS_MAX} of {ROWS_MAX + 100} rows" in "".join(page.text)


def test_equal_topologies_make_equal_pages() -> None:
    assert render(topologies.shop()) == render(topologies.shop())


def test_findings_come_before_the_map_and_the_worst_come_first() -> None:
    source = render(topologies.shop())
    ids = ("findings", "map", "details", "tables", "method")
    titles = [source.index(f'id="{id_}"') for id_ in ids]
    severities = [dict(attributes)["class"] for tag, attributes in read_page(source).elements if tag == "article"]

    assert titles == sorted(titles)
    assert severities == ["finding critical"] * 2 + ["finding warning"] * 6 + ["finding info"]


def test_code_in_backticks_is_set_as_code_and_escaped() -> None:
    topology = topologies.shop()
    finding = replace(topology.findings[0], remedy="Set `a<b` & more", evidence=("a lone ` <i>",))
    source = render(replace(topology, findings=(finding,)))

    assert "<code>a&lt;b</code> &amp; more" in source
    assert "a lone ` &lt;i&gt;" in source


def test_only_kinds_that_there_are_are_counted() -> None:
    heads = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", render(topologies.quickstart()))
    assert [name for name, _ in heads[:3]] == ["source", "channel", "subscriptions"]
    assert "broker" not in dict(heads)
    names = [name for name, _ in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", render(topologies.shop()))[:5]]
    assert names == ["sources", "channels", "broker", "subscriptions", "triggers"]
