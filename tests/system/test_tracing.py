"""Traces through a real worker and a real Kafka, as a collector sees them: receive -> process -> attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from knative.cloudevents.trace_context import parent_in_request
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, free_port, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.collector import Collector, Span
from tests.system.sending import post

pytestmark = pytest.mark.system

TRACE, SENDER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT, TRACESTATE = f"00-{TRACE}-{SENDER}-01", "vendor=here,other=there"
MALFORMED = f"00-{TRACE.upper()}-{SENDER}-01"
RETRIED = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}


@dataclass(frozen=True, slots=True)
class Traced:
    """One worker that exported all it had, and what there is to see of it."""

    installation: Installation
    collector: Collector
    subscriber: ScriptedSubscriber
    log: list[dict[str, Any]]  #: lines of the worker
    records: dict[str, dict[str, str]]  #: event id -> plain headers of the stored record


def _log(worker: Worker) -> list[dict[str, Any]]:
    lines = worker.log.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.fixture(scope="module")
def traced(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """Three events, with a trace, without and with a broken one; three subscriptions; all settled and exported."""
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("traces"))
    with Collector() as collector, ScriptedSubscriber() as subscriber:
        installation.env |= {
            "PENSTOCK_OTLP_ENDPOINT": collector.endpoint,
            "PENSTOCK_LOG_LEVEL": "debug",
        }
        subscriptions = [
            Wanted("good", subscriber.script("/good?token=secret", says(200))),
            Wanted("late", subscriber.script("/late", says(503), says(500), says(202)), delivery=RETRIED),
            Wanted("bad", subscriber.script("/bad", says(400))),
        ]
        installation.write(subscriptions)
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(subscriptions), 60)
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            sent = [("traceparent", TRACEPARENT), ("tracestate", TRACESTATE)]
            assert post(worker.port, target, "with-trace", b"body", sent).status == 202
            assert post(worker.port, target, "without", b"body").status == 202
            assert post(worker.port, target, "malformed", b"body", [("traceparent", MALFORMED)]).status == 202
            assert post(worker.port, target, "no-event", b"body", [("ce-specversion", "7")]).status == 400
            installation.wait_settled([subscription.name for subscription in subscriptions], 180)
            assert worker.terminate() == 0, worker.tail()  # and with it the last spans are exported
            lines = _log(worker)
        stored = reader.records(kafka.bootstrap, installation.resources.topic)
        names = ("traceparent", "tracestate")
        records = {reader.header(m, "ce_id"): {name: reader.header(m, name) for name in names} for m in stored}
        yield Traced(installation, collector, subscriber, lines, records)


def _receive(traced: Traced, event_id: str) -> Span:
    (span,) = [span for span in traced.collector.spans(cloudevents__event_id=event_id) if span.kind == "SERVER"]
    return span


def _process(traced: Traced, event_id: str, name: str) -> Span:
    label = f"{NAMESPACE}/{name}"
    (span,) = traced.collector.spans(cloudevents__event_id=event_id, penstock__subscription=label)
    return span


def _attempts(traced: Traced, process: Span) -> list[Span]:
    return [span for span in traced.collector.spans() if span.parent == process.id]


def test_receive_is_a_child_of_the_sender(traced: Traced) -> None:
    span = _receive(traced, "with-trace")
    topic = traced.installation.resources.topic

    assert (span.trace, span.parent, span.state) == (TRACE, SENDER, TRACESTATE)
    assert span.name == f"receive {topic}"
    assert not span.failed
    assert {
        "http.request.method": "POST",
        "http.response.status_code": 202,
        "url.scheme": "http",
        "url.path": f"/channels/{NAMESPACE}/{traced.installation.resources.channel}",
        "server.address": "ingress.test",
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.type": "send",
        "messaging.message.body.size": 4,
        "cloudevents.event_id": "with-trace",
        "cloudevents.event_source": "/test",
        "cloudevents.event_type": "test.event",
    }.items() <= span.attributes.items()
    assert span.resource["service.name"] == traced.installation.name
    assert span.resource["service.instance.id"]


def test_record_carries_the_context_of_receive(traced: Traced) -> None:
    for event_id, headers in traced.records.items():
        span = _receive(traced, event_id)

        assert headers["traceparent"].startswith(f"00-{span.trace}-{span.id}-")
        assert headers["tracestate"] == span.state


def test_process_is_a_child_of_receive_for_each_subscription(traced: Traced) -> None:
    received = _receive(traced, "with-trace")
    topic = traced.installation.resources.topic
    for name, verdict in (("good", "delivered"), ("late", "delivered"), ("bad", "dead-lettered")):
        span = _process(traced, "with-trace", name)

        assert (span.kind, span.name) == ("CONSUMER", f"process {topic}")
        assert (span.trace, span.parent, span.state) == (TRACE, received.id, TRACESTATE)
        assert span.failed == (verdict == "dead-lettered")
        assert {
            "messaging.system": "kafka",
            "messaging.destination.name": topic,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": traced.installation.group(name),
            "messaging.destination.partition.id": "0",
            "messaging.kafka.offset": 0,
            "cloudevents.event_source": "/test",
            "penstock.verdict": verdict,
        }.items() <= span.attributes.items()


def test_each_attempt_is_a_child_of_process(traced: Traced) -> None:
    attempts = _attempts(traced, _process(traced, "with-trace", "late"))

    assert [span.attributes["http.response.status_code"] for span in attempts] == [503, 500, 202]
    assert [span.attributes.get("http.request.resend_count") for span in attempts] == [None, 1, 2]
    assert [span.attributes.get("error.type") for span in attempts] == ["503", "500", None]
    assert [span.failed for span in attempts] == [True, True, False]
    for span in attempts:
        assert (span.kind, span.name, span.trace) == ("CLIENT", "POST", TRACE)
        assert {
            "http.request.method": "POST",
            "server.address": "127.0.0.1",
            "server.port": traced.subscriber.port,
            "url.full": traced.subscriber.url("/late"),
        }.items() <= span.attributes.items()


def test_subscriber_gets_the_context_of_its_attempt(traced: Traced) -> None:
    for path, name in (("/late", "late"), ("/good?token=secret", "good"), ("/bad", "bad")):
        requests = [r for r in traced.subscriber.requests(path) if r.attributes["id"] == "with-trace"]
        parents = [parent_in_request(request.pairs) for request in requests]
        attempts = _attempts(traced, _process(traced, "with-trace", name))

        assert [(p.trace_id, p.span_id, p.state) for p in parents if p] == [
            (span.trace, span.id, TRACESTATE) for span in attempts
        ]


@pytest.mark.parametrize("event_id", ["without", "malformed"])
def test_without_a_trace_a_new_one_is_begun(traced: Traced, event_id: str) -> None:
    received = _receive(traced, event_id)

    assert received.parent == ""
    assert received.trace != TRACE
    for name in ("good", "late", "bad"):
        process = _process(traced, event_id, name)
        assert (process.trace, process.parent) == (received.trace, received.id)
        assert {span.trace for span in _attempts(traced, process)} == {received.trace}


def test_ids_of_all_events_are_different(traced: Traced) -> None:
    spans = traced.collector.spans()

    assert len({span.id for span in spans}) == len(spans)
    assert len({_receive(traced, event_id).trace for event_id in traced.records}) == 3


def test_refusal_is_a_span_and_no_error_of_ours(traced: Traced) -> None:
    (span,) = traced.collector.spans(http__response__status_code=400, url__scheme="http")

    assert (span.kind, span.failed) == ("SERVER", False)


def test_health_and_metrics_pages_make_no_spans(traced: Traced) -> None:
    paths = {span.attributes.get("url.path") for span in traced.collector.spans() if span.kind == "SERVER"}

    assert paths <= {f"/channels/{NAMESPACE}/{traced.installation.resources.channel}"} | {
        path for path in paths if path is not None and path.startswith("/subscribers/")
    }


def test_log_lines_name_the_trace(traced: Traced) -> None:
    about = [line for line in traced.log if line.get("event_id") == "with-trace"]

    assert {line["trace_id"] for line in about} == {TRACE}
    assert [
        (line["event"], line["attempt"], line["status"]) for line in about if line["subscription"] == "test/late"
    ] == [
        ("attempt failed", 1, 503),
        ("attempt failed", 2, 500),
        ("delivered", 3, 202),
    ]
    (plain,) = [line for line in about if line["subscription"] == "test/good"]
    assert (plain["level"], plain["event"], plain["attempt"], plain["status"]) == ("debug", "delivered", 1, 200)


def test_collector_that_is_away_disturbs_nothing(
    kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> None:
    installation = Installation(kafka.bootstrap, tmp_path_factory.mktemp("away"))
    installation.env["PENSTOCK_OTLP_ENDPOINT"] = f"http://127.0.0.1:{free_port()}"
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("good", subscriber.script("/good", says(200)))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1, 60)
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"

            def reported() -> list[dict[str, Any]]:
                return [line for line in _log(worker) if "spans" in line["event"] or "opentelemetry" in line["logger"]]

            assert post(worker.port, target, "one", b"").status == 202
            wait_until("the worker says that spans are dropped", lambda: bool(reported()), 180)
            assert post(worker.port, target, "two", b"").status == 202
            installation.wait_settled(["good"], 180)
            assert worker.terminate() == 0, worker.tail()

            assert [line["level"] for line in reported()] == ["warning"]
        assert [request.attributes["id"] for request in subscriber.requests("/good")] == ["one", "two"]
