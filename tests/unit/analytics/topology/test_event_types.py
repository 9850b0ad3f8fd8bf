"""Event types in the map: who gets a type and by which filter, what no one takes, and that they join nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analytics.topology import exports, selection
from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.formats.backstage import backstage
from analytics.topology.formats.openlineage import openlineage
from analytics.topology.model import arrivals
from analytics.topology.model.document import Finding, Flow, Kind, Severity, Topology, Vertex, from_json, to_json
from analytics.topology.model.facts import facts_of
from analytics.topology.model.names import delivered_by
from analytics.topology.questions import Impact, impact, vertices_named
from analytics.topology.report import render
from analytics.topology.report.pagegraph import gather
from analytics.topology.report.tables import tables
from app.cli.output.topology import summary
from app.cli.output.topology_questions import show_impact
from knative.filters.dialects import Cesql, Exact, Prefix
from tests.support.planted_faults import World
from tests.support.topologies import HOSTILE_SOURCE
from tests.unit.analytics.topology.report.page_reader import read_page

PAID = Exact((("type", "order.paid"),))


def shop() -> World:
    """Two brokers and a channel. `audit` takes one type of the two that come to it, and nothing passes `vip`."""
    world = World().channel("main", kind="Broker").channel("audit", kind="Broker").channel("orders").channel("alone")
    for name, channel, filter_ in (
        ("paid", "main", PAID),
        ("created", "main", Prefix((("type", "order.c"),))),
        ("vip", "main", Cesql("tier = 'vip'")),
        ("ledger", "audit", PAID),
    ):
        world.subscription(name, channel, f"http://{name}", kind="Trigger", filter_=filter_)
    world.subscription("all", "orders", "http://all", reply="alone").subscription("end", "alone", "http://end")
    world.sent("main", "/web", 30, "order.paid").sent("main", "/app", 20, "order.created")
    world.sent("audit", "/web", 30, "order.paid").sent("audit", "/web", 5, "order.Paid").sent("orders", "/s", 7, "t")
    world.settled("paid", 30, filtered=20).settled("created", 20, filtered=30).settled("vip", 0, filtered=50)
    return world.settled("ledger", 30, filtered=5).settled("all", 7)


def built(world: World, counted: bool = True, namespace: str = "", whole: int = 100_000) -> Topology:
    return build(world.inputs(counted, namespace), LocalEngine(), whole=whole)


def findings(topology: Topology) -> dict[str, Finding]:
    rules = ("untaken-type", "filter-passed-nothing", "undeclared-type", "unseen-type")
    return {finding.id: finding for finding in topology.findings if finding.rule in rules}


def vertex(topology: Topology, id_: str) -> Vertex:
    return next(vertex for vertex in topology.vertices if vertex.id == id_)


def asked(topology: Topology, id_: str) -> Impact:
    return impact(topology, vertex(topology, id_))


def test_document_has_each_type_and_the_channels_that_it_came_to() -> None:
    topology = built(shop())

    types = {vertex.id: vertex.rate for vertex in topology.vertices if vertex.kind is Kind.EVENT_TYPE}
    assert types == {
        "type:order.paid": 1.0,
        "type:order.created": 0.333333,
        "type:order.Paid": 0.083333,
        "type:t": 0.116667,
    }
    carried = {(edge.source, edge.target): edge.events for edge in topology.edges if edge.kind is Flow.CARRIES}
    assert carried == {
        ("type:order.paid", "broker:test/main"): 30,
        ("type:order.created", "broker:test/main"): 20,
        ("type:order.paid", "broker:test/audit"): 30,
        ("type:order.Paid", "broker:test/audit"): 5,
        ("type:t", "channel:test/orders"): 7,
    }
    sent = {(edge.source, edge.target): edge.events for edge in topology.edges if edge.kind is Flow.SENDS}
    assert sent == {
        ("source:/web", "type:order.paid"): 60,
        ("source:/app", "type:order.created"): 20,
        ("source:/web", "type:order.Paid"): 5,
        ("source:/s", "type:t"): 7,
    }
    assert from_json(to_json(topology)) == topology
    assert "4 event types" in summary(topology)


def test_types_join_nothing() -> None:
    """All that is not about types is as if no type were known."""
    inputs = shop().inputs()
    facts = replace(facts_of(inputs), types=None, sent=None)
    topology, without = build(inputs, LocalEngine()), build(inputs, LocalEngine(), facts)

    assert (topology.islands, topology.reach, topology.rankings) == (without.islands, without.reach, without.rankings)
    assert len(topology.islands) == 2
    assert topology.totals == without.totals
    assert not {row.kind for row in asked(topology, "broker:test/main").upstream} & {Kind.EVENT_TYPE}
    assert gather(topology) == replace(gather(without), items=gather(topology).items)
    assert exports.mermaid(topology) == exports.mermaid(without)
    assert exports.dot(topology) == exports.dot(without)
    assert openlineage(topology, "k:9092") == openlineage(without, "k:9092")
    assert "event-type-order.paid" in backstage(topology)


def test_type_that_every_filter_excludes_is_found() -> None:
    finding = findings(built(shop()))["untaken-type:type:order.Paid"]

    assert (finding.severity, finding.objects) == (Severity.INFO, ("type:order.Paid", "broker:test/audit"))
    assert finding.title == "No subscription of test/audit accepts events of the type order.Paid"
    assert finding.evidence == ("5 events came to test/audit, where every filter excludes this type.",)


def test_filter_that_nothing_passed_is_found() -> None:
    finding = findings(built(shop()))["filter-passed-nothing:trigger:test/vip"]

    assert finding.objects == ("trigger:test/vip", "broker:test/main")
    assert finding.evidence == (
        "It evaluated 50 events in the window. None passed.",
        """Its filter: {"cesql":"tier = 'vip'"}""",
        "Types that came to test/main: order.paid, order.created.",
    )


@pytest.mark.parametrize(
    ("counted", "namespace", "number"), [(True, "", 2), (True, "test", 2), (True, "x", 0), (False, "", 0)]
)
def test_no_other_finding_and_none_without_counts(counted: bool, namespace: str, number: int) -> None:
    assert len(findings(built(shop(), counted, namespace))) == number


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.subscription("any", "audit", "http://any", kind="Trigger"),
        lambda world: world.subscription("may", "audit", "http://m", kind="Trigger", filter_=Cesql("x = 1")),
        lambda world: world.settled("vip", 1),
        lambda world: world.settled("vip", 0, dead=1),
    ],
)
def test_what_may_take_a_type_or_has_passed_is_not_found(change) -> None:  # type: ignore[no-untyped-def]
    assert len(findings(built(change(shop())))) == 1


def drift(world: World, namespace: str = "") -> dict[str, Finding]:
    return {
        id_: finding for id_, finding in findings(built(world, namespace=namespace)).items() if finding.rule in DRIFT
    }


DRIFT = ("undeclared-type", "unseen-type")


def test_type_that_no_event_type_of_its_channel_declares_is_found() -> None:
    world = shop().declares("main", "order.paid").sent("main", "/web", 2, "order.Paid")
    drifts = drift(world)

    assert drifts.keys() == {"undeclared-type:type:order.Paid", "undeclared-type:type:order.created"}
    finding = drifts["undeclared-type:type:order.Paid"]
    assert (finding.severity, finding.objects) == (Severity.INFO, ("type:order.Paid", "broker:test/main"))
    assert finding.title == "No EventType of test/main declares order.Paid"
    assert finding.evidence == ("2 events came to test/main, for which 1 other type is declared.",)
    assert drift(world.declares("audit", "order.paid"))["undeclared-type:type:order.Paid"].objects == (
        "type:order.Paid",
        "broker:test/audit",
        "broker:test/main",
    )


def test_declared_types_that_did_not_come_are_found_once_for_a_channel() -> None:
    world = shop().declares("audit", "order.paid", "order.Paid", "refund", "order.created")

    finding = drift(world)["unseen-type:broker:test/audit"]
    assert drift(world).keys() == {finding.id}
    assert (finding.severity, finding.objects) == (Severity.INFO, ("broker:test/audit",))
    assert finding.title == "2 of 4 declared event types did not come to test/audit"
    assert finding.evidence == (
        "No event of the type order.created came in the window.",
        "No event of the type refund came in the window.",
    )


@pytest.mark.parametrize(
    ("world", "ids"),
    [
        (shop(), set()),
        (shop().declares("main", "order.paid", "order.created"), set()),
        (shop().declares("alone", "order.paid"), {"unseen-type:channel:test/alone"}),
        (shop().declares("main", "order.paid", "order.created", "refund").sent("main", "/s", 1, ""), set()),
        (shop().declares("main", "order.paid", "order.created", "z" * 300).sent("main", "/s", 1, "z" * 256), set()),
    ],
    ids=["none is declared", "as declared", "nothing came", "the type of some events is not known", "it was cut"],
)
def test_drift_is_where_it_is_certain(world: World, ids: set[str]) -> None:
    assert drift(world).keys() == ids


@pytest.mark.parametrize(
    ("declared", "came", "fits"),
    [
        ("event.{status}.foo", "event.failed.foo", True),
        ("event.{}.foo", "event.a.b.foo", True),
        ("event.{status}.foo", "event..foo", False),
        ("event.{status}.foo", "eventXfailed.foo", False),
        ("event.{status}.foo", "event.{status}.foo", True),
        ("{a}{b}.foo", "x.foo", False),
        ("{a}{b}.foo", "xy.foo", True),
        ("{" + "a" * 250 + "}", "x", True),
        ("a.*.[x]?.{y}", "a.*.[x]?.1", True),
        ("a.*.[x]?.{y}", "a.b.x1.1", False),
        (r"event.\{status\}", "event.{status}", True),
        (r"event.\{status\}", "event.failed", False),
        ("event.{status", "event.{status", True),
        ("event.{status", "event.failed", False),
        ("{x}" * 80 + "!", "x" * 255, False),
    ],
)
def test_part_in_braces_stands_for_any_text(declared: str, came: str, fits: bool) -> None:
    """As in Knative; ours says so with many parts in no time, too."""
    world = World().channel("c").subscription("s", "c", "http://s").sent("c", "/s", 1, came).declares("c", declared)
    assert drift(world).keys() == (set() if fits else {f"undeclared-type:type:{came}", "unseen-type:channel:test/c"})


@pytest.mark.parametrize("declared", ["{a}.created", "zz{a}"])
def test_type_that_was_cut_may_be_one_of_a_template(declared: str) -> None:
    world = World().channel("c").subscription("s", "c", "http://s").sent("c", "/s", 1, "z" * 256)
    assert not drift(world.declares("c", declared))


def test_drift_needs_counts_and_is_of_the_namespace() -> None:
    world = World().channel("a/x").channel("b/y").sent("a/x", "/s", 1, "t").sent("b/y", "/s", 1, "t")
    world.subscription("a/s", "a/x", "b/y").declares("a/x", "u").declares("b/y", "v")

    assert drift(world, "b").keys() == {"undeclared-type:type:t", "unseen-type:channel:b/y"}
    assert drift(world, "b")["undeclared-type:type:t"].objects == ("type:t", "channel:b/y")
    assert not findings(built(world, counted=False))


def test_type_that_the_job_may_have_cut_is_not_judged() -> None:
    world = shop().sent("audit", "/web", 1, "x" * 255).sent("audit", "/web", 1, "x" * 256)
    assert {f"untaken-type:type:{'x' * 255}"} == findings(built(world)).keys() - findings(built(shop())).keys()


def test_channel_without_subscriptions_is_unread_and_nothing_more() -> None:
    topology = built(World().channel("c").sent("c", "/s", 3, "a").sent("c", "/s", 3, "b"))
    assert [finding.rule for finding in topology.findings] == ["unread"]


def test_impact_of_a_type_says_who_gets_it_and_by_which_filter() -> None:
    answer = asked(built(shop()), "type:order.paid")

    assert [(row.id, row.hops, row.flow, row.rate) for row in answer.upstream] == [("source:/web", 1, Flow.SENDS, 1.0)]
    taking = {row.id: (row.certain, row.filter) for row in answer.downstream if row.kind is Kind.TRIGGER}
    assert taking == {
        "trigger:test/paid": (True, '{"exact":{"type":"order.paid"}}'),
        "trigger:test/ledger": (True, '{"exact":{"type":"order.paid"}}'),
        "trigger:test/vip": (False, """{"cesql":"tier = 'vip'"}"""),
    }
    hops = {row.id: row.hops for row in answer.downstream}
    assert (hops["broker:test/main"], hops["trigger:test/paid"], hops["uri:http://paid"]) == (1, 2, 3)
    assert "uri:http://created" not in hops


def test_impact_of_a_type_is_printed_with_the_filters(capsys: pytest.CaptureFixture[str]) -> None:
    show_impact(asked(built(shop()), "type:order.paid"))

    lines = {line.split()[2]: line for line in capsys.readouterr().out.splitlines() if len(line.split()) > 3}
    assert lines["test/trigger:paid"].endswith('{"exact":{"type":"order.paid"}}')
    assert lines["test/trigger:vip"].endswith("""{"cesql":"tier = 'vip'"} (may pass)""")
    assert lines["/web"].split()[3:6] == ["sends", "ok", "1/s"]


def test_events_of_a_subscription_go_on_downstream() -> None:
    downstream = {row.id: (row.hops, row.certain) for row in asked(built(shop()), "type:t").downstream}
    assert (downstream["subscription:test/all"], downstream["channel:test/alone"]) == ((2, True), (3, None))


def test_name_is_that_of_a_type_only_if_nothing_else_has_it() -> None:
    topology = built(shop().sent("orders", "/s", 1, "orders"))

    assert [match.id for match in vertices_named(topology, "orders")] == ["channel:test/orders"]
    assert [match.id for match in vertices_named(topology, "type:orders")] == ["type:orders"]
    assert [match.id for match in vertices_named(topology, "order.paid")] == ["type:order.paid"]


def test_types_beyond_the_limit_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "TYPES_MAX", 1)
    topology = built(shop())

    types = {vertex.id: vertex.label for vertex in topology.vertices if vertex.kind is Kind.EVENT_TYPE}
    assert types == {"type:order.paid": "order.paid", "type:": "(other types)"}
    assert any("3 event types with the fewest events are shown as one" in line for line in topology.method)
    assert not {id_ for id_ in findings(topology) if id_.startswith("untaken")}


def test_of_another_namespace_only_what_came_to_its_channels_was_sent() -> None:
    world = World().channel("a/x").channel("b/y").sent("a/x", "/s", 3, "t").sent("b/y", "/s", 2, "t")
    topology = built(world.sent("a/x", "/r", 9, "t"), namespace="b")

    assert [(row.id, row.rate) for row in asked(topology, "type:t").upstream] == [("source:/s", 0.033333)]


def test_of_a_large_map_the_busiest_senders_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ARRIVALS_MAX", 1)
    edges = facts_of(shop().inputs()).edges_count()
    topology = built(shop(), whole=edges - 1)

    assert topology.partial
    assert [edge.id for edge in topology.edges if edge.kind is Flow.SENDS] == ["source:/web sends type:order.paid"]
    ids = {vertex.id for vertex in topology.vertices}
    assert all({edge.source, edge.target} <= ids for edge in topology.edges)
    assert not built(shop(), whole=edges).partial, "this map is in the document as a whole"


def test_type_that_looks_like_a_destination_is_none() -> None:
    topology = built(World().channel("c").sent("c", "/s", 1, "http://billing:8080/"))
    assert delivered_by(topology) == {}


def test_page_has_a_table_of_types_in_which_their_text_is_text() -> None:
    page = render(built(shop().sent("main", "/web", 1, HOSTILE_SOURCE)))

    assert "no one" in page
    assert HOSTILE_SOURCE not in page
    rows = read_page(page).text
    assert "order.created" in rows
    types = next(table for table in tables(built(shop()), gather(built(shop()))) if table.name == "types")
    assert [[cell.text for cell in row.cells[:3]] for row in types.rows[:2]] == [
        ["order.paid", "/web", "test/audit"],
        ["order.paid", "/web", "test/main"],
    ]


def test_of_another_namespace_not_all_subscriptions_are_in_the_map() -> None:
    """So nothing is said of its channels."""
    world = World().channel("a/x", kind="Broker").channel("b/y", kind="Broker")
    world.subscription("a/some", "a/x", "b/y", kind="Trigger", filter_=PAID)
    world.subscription("a/rest", "a/x", "http://rest", kind="Trigger")
    world.subscription("b/own", "b/y", "http://own", kind="Trigger", filter_=PAID)
    topology = built(world.sent("a/x", "/s", 1, "q").sent("b/y", "/s", 1, "q"), namespace="b")

    assert findings(topology)["untaken-type:type:q"].objects == ("type:q", "broker:b/y")
