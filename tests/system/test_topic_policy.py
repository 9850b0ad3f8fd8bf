"""A Kafka whose policies refuse configs of topics, as managed ones do: workers start, and events arrive."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.local.kafka.jars import ensure_jars
from controller.kafka.internal_topics import CHANGELOG, INTERNAL, traffic_configs
from knative.contract.kafka_names import contract_topic, status_topic, traffic_topic, windows_changelog_topic
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaInvalid
from tests.support.installation import Installation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import REPOSITORY, LoadProcess, SinkProcess, get, wait_until
from tests.support.resources import Wanted

pytestmark = pytest.mark.system

LIMIT_S = 180.0
_POLICY = """
import java.util.*;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.*;

public class ManagedPolicy implements CreateTopicPolicy, AlterConfigPolicy {
    static final List<String> REFUSED =
        List.of("segment.ms", "min.cleanable.dirty.ratio", "delete.retention.ms", "max.message.bytes");

    private static void check(Map<String, String> configs) {
        for (String name : REFUSED)
            if (configs.containsKey(name)) throw new PolicyViolationException(name + " cannot be set");
        String bytes = configs.get("segment.bytes");
        if (bytes != null && Long.parseLong(bytes) < 52428800)
            throw new PolicyViolationException("segment.bytes is below 50 MiB");
    }
    public void validate(CreateTopicPolicy.RequestMetadata request) { check(request.configs()); }
    public void validate(AlterConfigPolicy.RequestMetadata request) { check(request.configs()); }
    public void configure(Map<String, ?> configs) {}
    public void close() {}
}
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("managed")
    (folder / "ManagedPolicy.java").write_text(_POLICY)
    libs = ensure_jars(REPOSITORY / ".penstock" / "kafka")
    subprocess.run(["javac", "-cp", f"{libs}/*", "-d", str(folder), str(folder / "ManagedPolicy.java")], check=True)
    policies = {f"{what}.policy.class.name": "ManagedPolicy" for what in ("create.topic", "alter.config")}
    with KafkaCluster(folder, brokers=1, also=lambda _: policies, classes=folder) as cluster:
        yield cluster


def test_policy_refuses_what_internal_topics_have_elsewhere(kafka: KafkaCluster) -> None:
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, LIMIT_S)
    for configs in (INTERNAL, CHANGELOG):
        with pytest.raises(KafkaInvalid):
            admin.create_topic("refused", 1, 1, configs)


def test_workers_start_and_events_and_traffic_arrive(kafka: KafkaCluster, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path)
    names = (contract_topic, status_topic, traffic_topic, windows_changelog_topic)
    topics = [name(installation.name) for name in names]
    with SinkProcess(tmp_path, {"a": ""}) as sink:
        installation.write([Wanted("a", sink.url("a"))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            with LoadProcess(tmp_path, installation.url(worker), events=20, rate=100) as load:
                assert load.result(LIMIT_S)["statuses"] == {"202": 20}
            installation.wait_settled(["a"], LIMIT_S)
            wait_until("traffic is counted", lambda: _delivered(worker.port) == 20, LIMIT_S)
            lines = [json.loads(line) for line in worker.log.read_text().splitlines()]
            said = [line["topics"] for line in lines if "refuses configs of internal topics" in line["event"]]
            assert sorted(said) == sorted([", ".join(topics[:2]), topics[3]])
            channel = installation.status("KafkaChannel", installation.resources.channel)["status"]
            (ready,) = (condition for condition in channel["conditions"] if condition["type"] == "TopicReady")
            assert (ready["status"], ready["reason"]) == ("True", "TopicDiffers")
            assert "max.message.bytes" in ready["message"]
            assert worker.terminate() == 0, worker.tail()
    configs = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, LIMIT_S).topic_configs(topics)
    compacted = {"cleanup.policy": "compact"}
    assert [configs[topic] for topic in topics] == [compacted, compacted, traffic_configs(604_800), compacted]


def _delivered(port: int) -> int:
    status, body = get(port, "/traffic?last=60")
    channels = json.loads(body)["channels"] if status == 200 else ()
    windows = (window for channel in channels for row in channel["subscriptions"] for window in row["windows"])
    return sum(window.get("delivered", 0) for window in windows)
