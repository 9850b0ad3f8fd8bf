"""`penstock doctor` against a real Kafka: what it finds, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from app.operations.doctor.release import release
from app.settings.fields import Settings
from knative.contract.kafka_names import doctor_group
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import free_port

Rows = dict[str, list[tuple[str, str]]]


@pytest.fixture
def site(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> StoredInstallation:
    return StoredInstallation.make(kafka.bootstrap, topic_name())


def _doctor(site: StoredInstallation, *arguments: str) -> tuple[int, Rows]:
    code, checks = _asked(site, *arguments)
    rows: Rows = {}
    for check in checks:
        rows.setdefault(check["check"], []).append((check["level"], check["found"]))
        assert bool(check["hint"]) == (check["level"] in ("warning", "problem"))
    return code, rows


def _asked(site: StoredInstallation, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    done = site.penstock("doctor", "-o", "json", *arguments)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_installation_that_nobody_runs_in_topics_that_nobody_made(site: StoredInstallation) -> None:
    site.subscribe("bill")
    KafkaAdmin({"bootstrap.servers": site.bootstrap}, 120).set_configs(site.topic, {"max.message.bytes": "65536"})
    code, checks = _doctor(site)
    assert code == 1
    ((level, text),) = checks["Kafka"]
    assert (level, text) == ("ok", f"Kafka {release(site.bootstrap)} at {site.bootstrap}, 1 broker")
    assert str(release(site.bootstrap)).startswith("4.")
    ((level, _),) = checks["clock of Kafka"]
    assert level in ("ok", "skipped"), "a Kafka in which no group has committed yet cannot tell"
    assert [level for level, _ in checks["workers"]] == ["problem"]
    assert [level for level, _ in checks["controllers"]] == ["warning"]  # the group is not there
    assert checks["rejected"] == [("warning", "no controller has reported yet")]
    contract = f"{site.instance}.contract, {site.instance}.status"
    assert ("problem", f"{contract}: cleanup.policy is delete instead of compact") in checks["topics"]
    refused = [text for level, text in checks["topics"] if level == "problem" and "max.message.bytes" in text]
    (says,) = refused
    assert says == f"{site.topic}: max.message.bytes is 65536, so Kafka refuses some events that ingress accepts"
    client = AdminClient({"bootstrap.servers": site.bootstrap})
    groups = {group.group_id for group in client.list_consumer_groups(request_timeout=60).result(120).valid}
    assert doctor_group(site.instance) not in groups


def test_installation_that_is_not_there(site: StoredInstallation) -> None:
    code, checks = _doctor(replace(site, instance="mistyped"))
    assert code == 1
    ((level, text),) = checks["installation"]
    assert level == "problem"
    assert "has no installation `mistyped`" in text


def test_what_it_advises_destroys_nothing(site: StoredInstallation) -> None:
    admin = KafkaAdmin({"bootstrap.servers": site.bootstrap}, 120)
    admin.set_configs(site.dlq_topic, {"retention.ms": str(90 * 86_400_000)})
    hints = {finding["found"]: finding["hint"] for finding in _asked(site)[1]}
    assert not [text for text in hints if "retention.ms is 7776000000" in text]
    assert hints["none runs, so changes of resources wait"] == "start the controller of this installation"
    assert hints["no controller has reported yet"] == "start the controller of this installation"
    admin.set_configs(site.dlq_topic, {"retention.ms": "1000"})
    ((text, hint),) = [
        (finding["found"], finding["hint"]) for finding in _asked(site)[1] if "retention.ms" in finding["found"]
    ]
    retention_ms = round(Settings().dlq_retention_s * 1000)
    assert text == f"{site.dlq_topic}: retention.ms is 1000 instead of {retention_ms}"
    assert hint.endswith(f"--add-config retention.ms={retention_ms}")


def test_kafka_that_is_away_is_one_line_and_the_rest_is_checked(site: StoredInstallation) -> None:
    away = replace(site, bootstrap=f"127.0.0.1:{free_port()}")
    code, checks = _doctor(away)
    assert code == 1
    assert list(checks) == ["settings", "Kafka", "resources"]
    done = away.penstock("doctor")
    assert "Traceback" not in done.stderr
    assert done.stderr.strip() == "3 checks: 1 problem, 0 warnings."
    assert len(done.stdout.splitlines()) == 3
