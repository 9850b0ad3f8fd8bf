"""What is found in planted worlds, and what is not: each rule, its severity, its borders."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.arrivals import SOURCES_MAX
from analytics.topology.model.document import (
    LISTED_MAX,
    Finding,
    Flow,
    Health,
    Kind,
    Severity,
    Topology,
    Window,
    from_json,
    to_json,
    without_types,
)
from analytics.topology.model.inputs import Inputs, State
from knative.delivery.policy import OnRetriesExhausted
from knative.delivery.verdicts import REPLY_LOOP, RETURNS
from knative.filters.dialects import ALL_EVENTS, Exact
from tests.support.planted_faults import FAULTS, NOW_S, READY, World, faulty, healthy
from tests.support.profiles import examples


def built(inputs: Inputs) -> Topology:
    return build(inputs, LocalEngine())


def faults(world: World, namespace: str = "", counted: bool = True) -> dict[str, Finding]:
    return {finding.id: finding for finding in built(world.inputs(counted, namespace)).findings}


def test_every_planted_fault_and_no_other() -> None:
    assert faults(faulty()).keys() == FAULTS
    assert not faults(healthy())


def test_without_counts_no_finding_needs_them() -> None:
    counted = {"unsent", "unbalanced", "dead-lettering"}

    assert faults(faulty(), counted=False).keys() == {fault for fault in FAULTS if fault.split(":")[0] not in counted}
    assert all(edge.rate is None and edge.events is None for edge in built(faulty().inputs(False)).edges)


def test_loop_has_its_path_and_its_edges() -> None:
    loop = faults(faulty())["reply-loop:channel:test/ping"]

    assert loop.severity is Severity.CRITICAL
    assert loop.objects[:2] == ("channel:test/ping", "channel:test/pong")
    assert loop.evidence[0] == "test/ping → test/there → test/pong → test/back → test/ping"
    assert len(loop.edges) == 4


_TYPE_A = Exact((("type", "a"),))


def _triggers(**last_errors: str) -> World:
    """`all` without a filter, `some` with one; a Subscription beside them."""
    world = World().channel("main", kind="Broker").channel("other").subscription("sub", "other", "http://z")
    for name, filter_ in (("all", ALL_EVENTS), ("some", _TYPE_A)):
        state = replace(READY, last_error=last_errors.get(name, ""))
        world.subscription(name, "main", f"http://{name}", kind="Trigger", filter_=filter_, state=state)
    return world.sent("main", "/s", 60).settled("all", 60).settled("some", 20, filtered=40)


def test_replies_of_triggers_go_back_into_their_broker() -> None:
    topology = built(_triggers().inputs())
    replies = {(edge.source, edge.target) for edge in topology.edges if edge.kind is Flow.REPLIES}
    assert replies == {("trigger:test/all", "broker:test/main"), ("trigger:test/some", "broker:test/main")}
    (chain,) = (finding for finding in topology.findings if finding.rule == "reply-chain")
    assert (chain.id, chain.severity) == ("reply-chain:broker:test/main", Severity.INFO)
    assert chain.objects == ("broker:test/main", "trigger:test/all", "trigger:test/some")
    assert chain.evidence == (
        "2 triggers; replies go back into the broker.",
        "Triggers without a filter, which get all replies: test/all.",
        "Triggers with a filter, which get the replies that pass: test/some.",
    )
    assert set(chain.edges) <= {edge.id for edge in topology.edges}
    assert not [
        finding
        for finding in topology.findings
        if finding.rule in ("self-reply", "reply-loop", "unbalanced", "surplus")
    ]


def test_replies_that_came_back_too_often_are_a_loop() -> None:
    error = f"508: more than 64 replies led to this event: {REPLY_LOOP}"
    topology = built(_triggers(some=error).inputs())
    (chain,) = (finding for finding in topology.findings if finding.rule == "reply-chain")
    assert (chain.severity, chain.objects[1]) == (Severity.CRITICAL, "trigger:test/some")
    assert chain.title == "The triggers of test/main answer each other in a loop"
    assert f"test/some: {error}." in chain.evidence
    (chain,) = (
        finding for finding in built(_triggers(some="503 busy").inputs()).findings if finding.rule == "reply-chain"
    )
    assert chain.severity is Severity.INFO


def test_many_triggers_of_a_broker_are_named_in_part() -> None:
    world = World().channel("main", kind="Broker")
    for number in range(3 * LISTED_MAX):
        filter_ = ALL_EVENTS if number % 2 else _TYPE_A
        world.subscription(f"t{number:02}", "main", f"http://x{number}", kind="Trigger", filter_=filter_)
    (chain,) = (finding for finding in built(world.inputs()).findings if finding.rule == "reply-chain")
    assert (len(chain.objects), chain.evidence[0]) == (41, "60 triggers; replies go back into the broker.")


def test_broker_that_nothing_is_sent_to_is_found_although_its_own_replies_lead_to_it() -> None:
    world = World().channel("main", kind="Broker").subscription("all", "main", "http://x", kind="Trigger")
    assert {finding.rule for finding in built(world.inputs()).findings} == {"reply-chain", "unsent"}


def test_channel_and_a_broker_of_one_name_have_dlq_topics_of_their_own() -> None:
    world = World().channel("main").subscription("all", "main", "http://x")
    world.channel("main", kind="Broker").subscription("all", "main", "http://y", kind="Trigger")
    dlqs = [vertex for vertex in built(world.inputs()).vertices if vertex.kind is Kind.DLQ]
    assert [dlq.id for dlq in dlqs] == ["dlq:test/broker:main", "dlq:test/main"]
    assert {(dlq.name, dlq.label) for dlq in dlqs} == {("main", "test/main.dlq")}
    assert len({dlq.detail["topic"] for dlq in dlqs}) == 2


def test_filter_makes_a_loop_less_certain() -> None:
    """A Trigger that delivers to its own broker."""
    for filter_, severity in ((ALL_EVENTS, Severity.CRITICAL), (_TYPE_A, Severity.INFO)):
        world = World().channel("main", kind="Broker")
        world.subscription("all", "main", "main", kind="Trigger", filter_=filter_)
        (loop,) = (finding for finding in built(world.inputs()).findings if finding.rule == "self-reply")
        assert (loop.id, loop.severity) == ("self-reply:broker:test/main", severity)


def test_loop_that_has_come_to_its_end_is_certain() -> None:
    """By a broker's longer path, too."""
    error = f"508: more than 64 replies and deliveries led to this event: {RETURNS}"
    world = World().channel("main", kind="Broker")
    uri, state = "http://any:8080/brokers/test/main", replace(READY, last_error=error)
    world.subscription("all", "main", uri, kind="Trigger", filter_=_TYPE_A, state=state)
    (loop,) = (finding for finding in built(world.inputs()).findings if finding.rule == "self-reply")
    assert (loop.id, loop.severity) == ("self-reply:broker:test/main", Severity.CRITICAL)
    assert loop.evidence[0] == f"test/all: {error}."


def test_broker_and_a_channel_of_one_name_have_numbers_of_their_own() -> None:
    world = World().channel("orders").channel("orders", kind="Broker")
    world.subscription("bill", "orders", "http://bill").subscription(
        "bill", "broker:orders", "http://x", kind="Trigger"
    )
    world.sent("orders", "/shop", 600).sent("broker:orders", "/other", 60)
    world.settled("bill", 600).settled("trigger:bill", 60)

    topology = built(world.inputs())
    assert [finding.rule for finding in topology.findings] == ["reply-chain"]
    events = {(edge.source, edge.target): edge.events for edge in topology.edges if edge.kind is not Flow.DEAD_LETTERS}
    assert events["source:/shop", "channel:test/orders"] == 600
    assert events["source:/other", "broker:test/orders"] == 60
    assert events["subscription:test/bill", "uri:http://bill"] == 600
    assert events["trigger:test/bill", "uri:http://x"] == 60


def test_forward_to_itself_and_two_loops_that_share_a_channel() -> None:
    world = World().channel("a").channel("b").channel("c")
    world.subscription("aa", "a", "a").subscription("ab", "a", "http://x", "b").subscription("ba", "b", "a")
    world.subscription("bc", "b", "c").subscription("cb", "c", "http://y", reply="b")

    (loop,) = (finding for finding in faults(world, counted=False).values() if finding.rule == "reply-loop")
    assert len(loop.objects) == 3 + 5
    assert [line.count(" → ") for line in loop.evidence] == [2, 4, 4]


def test_dead_letters_go_round_only_when_they_come_back() -> None:
    world = World().channel("work").channel("dead")
    world.subscription("worker", "work", "http://w", sink="dead").subscription("reader", "dead", "http://r")
    assert not faults(world, counted=False)
    world.subscription("again", "work", "http://w2", sink="work")
    assert faults(world, counted=False).keys() == {"dead-letter-loop:channel:test/work"}


def test_subscriber_of_two_channels_that_do_not_meet_is_fine() -> None:
    world = World().channel("a").channel("b")
    world.subscription("one", "a", "http://log").subscription("two", "b", "http://log")
    assert not faults(world, counted=False)


def test_same_event_by_two_ways_from_a_channel_further_up() -> None:
    """top -> left, top -> right, and one subscriber at both."""
    world = World().channel("top").channel("left").channel("right")
    world.subscription("l", "top", "left").subscription("r", "top", "right")
    world.subscription("ll", "left", "http://log").subscription("rr", "right", "http://log")

    (double,) = faults(world, counted=False).values()
    assert double.evidence == ("test/ll and test/rr both get the events of test/top.",)
    assert set(double.objects) == {
        "uri:http://log", "channel:test/top", "subscription:test/ll", "subscription:test/rr",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("delivered", "lag", "rule"),
    [(1000, 0, ""), (945, 0, ""), (900, 0, "unbalanced"), (900, 100, ""), (0, 0, "unbalanced"), (1080, 0, "surplus")],
)
def test_fan_out_against_what_was_settled(delivered: int, lag: int, rule: str) -> None:
    world = World().channel("a").subscription("s", "a", "http://x", state=State("True", lag=lag))
    world.sent("a", "/s", 1000).settled("s", delivered)
    assert [finding.rule for finding in faults(world).values()] == ([rule] if rule else [])


def test_no_worker_is_one_finding() -> None:
    inputs = replace(faulty().inputs(), workers=0, states={})
    rules = [finding.rule for finding in built(inputs).findings]

    assert rules.count("no-worker") == 1
    assert "not-ready" not in rules


def test_subscription_without_a_file_is_a_warning_with_its_cure() -> None:
    world = World().channel("a").subscription("s", "a", "http://x", state=State("False", "no file contains it"))
    world.subscriptions = [replace(world.subscriptions[0], unlisted=True)]
    finding = faults(world)["not-ready:subscription:test/s"]
    assert (finding.severity, finding.evidence) == (Severity.WARNING, ("no file contains it",))
    assert finding.remedy == "Add its file again, or delete it with `penstock remove Subscription/test/s`."


def test_subscription_of_a_deleted_channel() -> None:
    assert faults(World().channel("a").subscription("s", "nowhere/b", "http://x")).keys() >= {
        "lost-channel:subscription:test/s"
    }


def test_namespace_with_what_it_is_joined_to() -> None:
    world = World().channel("shop/orders").channel("bank/bills").channel("bank/inner")
    world.subscription("shop/pay", "shop/orders", "http://pay", reply="bank/bills")
    world.subscription("bank/settle", "bank/bills", "http://settle", reply="shop/orders")
    world.subscription("bank/other", "bank/inner", "http://other", exhausted=OnRetriesExhausted.IGNORE)
    shop = built(world.inputs(False, "shop"))

    assert "channel:bank/bills" in {vertex.id for vertex in shop.vertices}
    assert "channel:bank/inner" not in {vertex.id for vertex in shop.vertices}
    assert [finding.rule for finding in shop.findings] == ["reply-loop"]
    assert {finding.rule for finding in built(world.inputs(False, "bank")).findings} == {
        "reply-loop",
        "no-dead-letters",
    }


def test_channels_that_hang_on_one_subscriber() -> None:
    world = World()
    for number in range(5):
        world.channel(f"c{number}").subscription(f"s{number}", f"c{number}", "http://hub")
    (point,) = faults(world, counted=False).values()
    assert (point.id, point.severity) == ("single-point:uri:http://hub", Severity.INFO)
    assert "4 channels" in point.title


def test_sources_beyond_the_limit_are_one() -> None:
    world = World().channel("a").subscription("s", "a", "http://x")
    for number in range(SOURCES_MAX + 5):
        world.sent("a", f"/{number:06}", 2 if number < SOURCES_MAX else 1)
    world.settled("s", 2 * SOURCES_MAX + 5)
    topology = built(world.inputs())

    assert sum(vertex.kind.value == "source" for vertex in topology.vertices) == SOURCES_MAX + 1
    assert next(vertex for vertex in topology.vertices if vertex.id == "source:").rate == pytest.approx(
        5 / 60, abs=1e-5
    )
    assert any("5 sources" in line for line in topology.method)


def test_health_of_what_fails_and_of_what_is_idle() -> None:
    world = World().channel("a").channel("b").subscription("s", "a", "http://dead").subscription("t", "b", "http://x")
    world.sent("a", "/s", 10).settled("s", 0, dead=10, retried=20)
    topology = built(world.inputs())
    health = {vertex.id: vertex.health for vertex in topology.vertices}

    assert health["subscription:test/s"] is Health.DEGRADED
    assert health["uri:http://dead"] is Health.FAILED
    assert health["dlq:test/a"] is Health.DEGRADED
    assert health["subscription:test/t"] is Health.IDLE
    assert health["channel:test/b"] is Health.IDLE
    delivers = next(edge for edge in topology.edges if edge.target == "uri:http://dead")
    assert (delivers.events, delivers.failures, delivers.lag) == (0, 30, None)


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_ENDS = st.one_of(_NAMES, st.sampled_from(["http://x", "http://y", "http://z?q#"]))


@examples(60)
@given(
    st.lists(st.tuples(_NAMES, _ENDS, st.one_of(st.just(""), _ENDS), st.one_of(st.just(""), _ENDS)), max_size=8),
    st.lists(st.tuples(_NAMES, st.text(max_size=8), st.integers(0, 1000)), max_size=5),
    st.sampled_from(["", "test"]),
)
def test_any_world_makes_a_whole_document(
    subscriptions: list[tuple[str, str, str, str]], sent: list[tuple[str, str, int]], namespace: str
) -> None:
    """Ids are unique, edges end at vertices, findings name what is there, and the file can be read."""
    world = World()
    for name in ("a", "b", "c", "d"):
        world.channel(name)
    for number, (channel, to, reply, sink) in enumerate(subscriptions):
        world.subscription(f"s{number}", channel, to, reply, sink)
    for channel, source, events in sent:
        world.sent(channel, source.encode("utf-8", "replace").decode(), events)
    topology = built(world.inputs(namespace=namespace))

    vertices, edges = {vertex.id for vertex in topology.vertices}, {edge.id for edge in topology.edges}
    assert (len(vertices), len(edges)) == (len(topology.vertices), len(topology.edges))
    assert all({edge.source, edge.target} <= vertices for edge in topology.edges)
    assert all(set(finding.objects) <= vertices and set(finding.edges) <= edges for finding in topology.findings)
    assert all(finding.evidence and finding.remedy and finding.title for finding in topology.findings)
    assert sum(island.size for island in topology.islands) == len(without_types(topology).vertices)
    assert from_json(to_json(topology)) == topology


def test_single_points_of_too_many_edges_are_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build(faulty().inputs(), LocalEngine())
    monkeypatch.setattr("analytics.topology.engines.queries.CUT_EDGES_MAX", len(without_types(whole).edges) - 1)

    topology = build(faulty().inputs(), LocalEngine())

    assert any("Single points were not searched for" in line for line in topology.method)
    assert "cut" not in {ranking.name for ranking in topology.rankings}
    kept = {finding.id for finding in whole.findings if finding.rule != "single-point"}
    assert {finding.id for finding in topology.findings} == kept
    assert not any("Single points" in line for line in whole.method)


def alone(brokers: int, workers: int, replicas: int | None, partitions: int = 2) -> dict[str, Finding]:
    """What is said about copies, workers and partitions, in a world without faults."""
    inputs = healthy().inputs(workers=workers)
    channels = [replace(channel, partitions=partitions) for channel in inputs.channels]
    copies = {} if replicas is None else {channel.topic: replicas for channel in channels}
    inputs = replace(inputs, brokers=brokers, replicas=copies, channels=channels)
    return {finding.rule: finding for finding in built(inputs).findings}


@pytest.mark.parametrize(
    ("brokers", "workers", "replicas", "partitions", "rules"),
    [
        (3, 2, 3, 2, set()),
        (3, 2, 1, 2, {"one-replica"}),
        (3, 2, None, 2, set()),  # Kafka did not say
        (0, 1, None, 1, set()),
        (1, 1, 1, 1, set()),  # on a laptop there is one of everything
        (3, 1, 3, 1, {"one-worker"}),
        (3, 2, 3, 1, {"one-partition"}),
        (3, 1, 1, 1, {"one-worker", "one-replica"}),
    ],
)
def test_what_there_is_one_of_is_reported_where_there_could_be_more(
    brokers: int, workers: int, replicas: int | None, partitions: int, rules: set[str]
) -> None:
    assert alone(brokers, workers, replicas, partitions).keys() == rules


def test_single_copy_names_the_channels_and_the_remedy() -> None:
    finding = alone(3, 2, 1)["one-replica"]

    assert finding.severity is Severity.WARNING
    assert set(finding.objects) == {
        vertex.id for vertex in built(healthy().inputs()).vertices if vertex.kind is Kind.CHANNEL
    }
    assert "kafka-reassign-partitions" in finding.remedy


def test_channels_of_other_namespaces_are_not_reported() -> None:
    inputs = faulty().inputs(namespace="test")
    inputs = replace(inputs, brokers=3, replicas={channel.topic: 1 for channel in inputs.channels})
    objects = {id_ for finding in built(inputs).findings if finding.rule == "one-replica" for id_ in finding.objects}
    assert objects
    assert all(id_.startswith("channel:test/") for id_ in objects)


def test_document_has_totals_that_survive_the_file() -> None:
    topology = built(faulty().inputs())

    assert topology.totals[0].namespace == ""
    assert topology.totals[0].deliveries == pytest.approx(
        sum(edge.rate or 0.0 for edge in topology.edges if edge.kind is Flow.DELIVERS)
    )
    assert from_json(to_json(topology)) == topology


@pytest.mark.parametrize(("ago_s", "rules"), [(0, {"unbalanced"}), (3600, set())])
def test_traffic_of_then_is_not_compared_with_the_lag_of_now(ago_s: float, rules: set[str]) -> None:
    """100 events are not settled. If they waited an hour ago, they may be settled since, and none is missing."""
    world = World().channel("news").subscription("s", "news", "http://x").sent("news", "/a", 200).settled("s", 100)
    topology = built(replace(world.inputs(), window=Window(NOW_S - ago_s - 60, NOW_S - ago_s)))

    assert {finding.rule for finding in topology.findings} == rules
    assert any("missing events are not searched for" in line for line in topology.method) is (not rules)
