"""A real Prometheus that scrapes real processes: each query of the dashboards and of the alerts has an answer there."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.local.kafka import EmbeddedKafka
from examples.census.samples import write
from examples.census.topics import ensure
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.installation import Installation
from tests.support.processes import Child, Worker, free_port, wait_until
from tests.support.prometheus import CENSUS, Prometheus, Query, dashboards, queries
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

LIMIT_S = 300.0
LINES = 3_000
ANSWER = says(200, b"", "ce-specversion: 1.0", "ce-id: answer", "ce-source: /echo", "ce-type: answer")
#: Series that are there only after what a test cannot, or need not, bring about.
MAY_BE_EMPTY = {
    "penstock_produce_stored_again_total": "librdkafka takes a new epoch while a connection is lost",
    "penstock_records_expired_total": "Kafka removes segments that were not read, minutes after their retention",
}
#: Alerts that a busy machine may cause.
OF_BUSY_MACHINES = {"PenstockEventsStoredLate", "PenstockEventLoopLate"}


def _made_concrete(expression: str) -> str:
    """As Grafana asks for all namespaces and subscriptions; scrapes are a second apart here."""
    for name, value in (("$__rate_interval", "1m"), ("$namespace", ".*"), ("$subscription", ".*")):
        expression = expression.replace(name, value)
    return expression


def _unanswered(prometheus: Prometheus, some: set[Query]) -> set[Query]:
    """Those without data now. Each series has the labels that the legend names."""
    empty = set()
    for query in some:
        answer = prometheus.query(_made_concrete(query.expression))
        for series in answer:
            assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= series["metric"].keys(), query
        if not answer:
            empty.add(query)
    return empty


def _wait_answered(prometheus: Prometheus, dashboard: str, meanwhile: Callable[[], None]) -> None:
    """Until each query had an answer, but for those of MAY_BE_EMPTY, which are accepted."""
    left = {
        query
        for query in queries(dashboards()[dashboard])
        if not any(name in query.expression for name in MAY_BE_EMPTY)
    }
    may = set(queries(dashboards()[dashboard])) - left
    _unanswered(prometheus, may)

    def answered() -> bool:
        meanwhile()
        left.intersection_update(_unanswered(prometheus, left))
        return not left

    try:
        wait_until("each query has an answer", answered, LIMIT_S, poll_s=0.5)
    except AssertionError as error:
        raise AssertionError(f"no answer for {[(query.panel, query.expression) for query in left]}") from error


def test_each_query_of_dashboard_and_alerts_has_an_answer(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Subscriptions that retry, have dead letters, or answer with events; a Trigger with a filter."""
    channel = Installation(kafka.bootstrap, tmp_path)
    broker = replace(channel, channel="broker", is_broker=True)
    with ScriptedSubscriber() as subscriber:
        busy, bad = subscriber.script("/busy", says(503)), subscriber.script("/bad", says(400))
        echo = subscriber.script("/echo", ANSWER)
        retry = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
        channel.write(
            [
                Wanted("good", subscriber.script("/good", says(200))),
                Wanted("retries", busy, delivery=retry),
                Wanted("letters", bad, "unordered"),
                Wanted("drops", echo),
            ]
        )
        broker.write([Wanted("echo", echo, filter={"filter": {"attributes": {"type": "test.event"}}})])
        with channel.worker() as worker:
            worker.wait_ready()
            channel.wait_subscribers(worker, 4)
            broker.wait_triggers(["echo"])
            labels = {"namespace": "penstock", "pod": "w-1", "app_kubernetes_io_component": "all"}
            with Prometheus(tmp_path / "prometheus", [(f"127.0.0.1:{worker.admin_port}", labels)]) as prometheus:
                prometheus.wait_ready()

                def send() -> None:
                    for installation in (channel, broker):
                        assert post(worker.port, installation.resources.path, uuid.uuid4().hex, b"{}").status == 202

                _wait_answered(prometheus, "penstock.json", send)
                _check_alerts(prometheus, worker, send)
            assert worker.terminate() == 0, worker.tail()


def _check_alerts(prometheus: Prometheus, worker: Worker, send: Callable[[], None]) -> None:
    """Their metrics are there, each rule is evaluated, and this installation's faults are found: no others."""
    expected = {
        ("PenstockSubscriberFails", "test/retries"),
        ("PenstockSubscriberFails", "test/letters"),
        ("PenstockDeadLetters", "test/letters"),
    }

    # At first there are others: the controller counts dead letters every 30 s.
    prometheus.wait_alerts(expected, send, lambda alert: alert[0] not in OF_BUSY_MACHINES)
    for rule in prometheus.rules():
        assert (rule["health"], rule.get("lastError")) == ("ok", None), rule["name"]
        for name in set(re.findall(r"\b(?:penstock|process)_\w+", rule["query"])) - MAY_BE_EMPTY.keys():
            assert prometheus.query(name), f"{name} of {rule['name']}; {worker.tail()}"


def test_queries_of_the_census_have_an_answer(
    kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic = topic_name()
    topics = ("--compute-topic", f"{topic}-compute", "--results-topic", f"{topic}-results")
    ports = {name: free_port() for name in ("read", "compute", "results")}
    file = write(tmp_path, 2019, "jan", LINES)
    ensure(KafkaAdmin({"bootstrap.servers": kafka.bootstrap}), f"{topic}-compute", 2, 1)

    def census(name: str, *flags: str) -> Child:
        command = [sys.executable, "-m", "examples.census", name, *flags, *topics, "--kafka", kafka.bootstrap]
        return Child(name, [*command, "--with-metrics", "--metrics-port", str(ports[name])], tmp_path)

    targets = [(f"127.0.0.1:{port}", {"app": name}) for name, port in ports.items()]
    with (
        Prometheus(tmp_path / "prometheus", targets) as prometheus,
        census("compute", "--delay", "20") as computing,
        census("results", "--results-port", str(free_port())) as adding,
        census("read", "--years", "2019", "--from-file", str(file), "--no-shutdown-reader") as reading,
    ):
        prometheus.wait_ready()

        def running() -> None:
            for child in (computing, adding, reading):
                assert child.running, child.tail()

        _wait_answered(prometheus, CENSUS, running)
