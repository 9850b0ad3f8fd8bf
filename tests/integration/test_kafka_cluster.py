"""The cluster that tests break: what its brokers do when they are killed, paused, restarted or cut off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from controller.kafka.groups import OnError, observe_groups
from controller.kafka.offsets import Offsets
from controller.plan.actions import GroupState
from knative.contract.seeks import Move
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger import reader
from tests.support.processes import wait_until

pytestmark = pytest.mark.integration
LIMIT_S = 180.0


def _produce(bootstrap: str, topic: str, value: bytes, limit_s: float = LIMIT_S) -> KafkaError | None:
    """How it ended; None = stored on two brokers at least."""
    reported: list[KafkaError | None] = []
    settings = {"acks": "all", "delivery.timeout.ms": int(limit_s * 1000), "linger.ms": 0, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _message: reported.append(error))
    assert producer.flush(limit_s + 30) == 0
    return reported[0]


def _values(cluster: KafkaCluster, topic: str) -> list[bytes]:
    return [message.value() or b"" for message in reader.records(cluster.direct, topic)]


def _topic(cluster: KafkaCluster, topic_name: Callable[[], str]) -> str:
    name = topic_name()
    cluster.create_topic(name)
    return name


def _commit(cluster: KafkaCluster, topic: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


def test_everything_has_three_replicas_of_which_two_must_have_it(
    cluster: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    topic = _topic(cluster, topic_name)
    assert _produce(cluster.bootstrap, topic, b"one") is None
    _commit(cluster, topic, topic)
    admin = AdminClient({"bootstrap.servers": cluster.direct})
    for name in (topic, "__consumer_offsets"):
        partitions = admin.list_topics(name, timeout=LIMIT_S).topics[name].partitions.values()
        assert {(len(partition.replicas), len(partition.isrs)) for partition in partitions} == {(3, 3)}
        resource = ConfigResource("topic", name)
        assert admin.describe_configs([resource])[resource].result(LIMIT_S)["min.insync.replicas"].value == "2"


def test_clients_come_through_the_proxies_and_onlookers_do_not(
    cluster: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    topic = _topic(cluster, topic_name)
    for broker in cluster.brokers:
        broker.proxy.refuse()
    assert _produce(cluster.bootstrap, topic, b"lost", limit_s=2) is not None
    assert _produce(cluster.direct, topic, b"one") is None
    cluster.heal()
    assert _produce(cluster.bootstrap, topic, b"two") is None
    assert _values(cluster, topic) == [b"one", b"two"]


def test_replicas_of_a_topic_are_those_of_its_partition_with_the_fewest(
    cluster: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    """The topology reports a channel whose events only one of several brokers has."""
    whole, single = _topic(cluster, topic_name), topic_name()
    admin = KafkaAdmin({"bootstrap.servers": cluster.bootstrap}, LIMIT_S)
    admin.create_topic(single, 2, 1, {})
    wait_until("both topics are there", lambda: {whole, single} <= admin.cluster().replicas.keys(), LIMIT_S)

    info = admin.cluster()
    assert (info.brokers, info.replicas[whole], info.replicas[single]) == (3, 3, 1)


def test_another_leads_when_the_leader_is_killed(cluster: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = _topic(cluster, topic_name)
    assert _produce(cluster.bootstrap, topic, b"one") is None
    leader = cluster.leader(topic)
    leader.kill()
    wait_until("another one leads", lambda: cluster.leader(topic) is not leader, LIMIT_S)
    wait_until("every broker knows that one is away", lambda: not cluster.healthy(), LIMIT_S)
    assert _produce(cluster.bootstrap, topic, b"two") is None
    cluster.heal()
    assert leader.running
    assert _values(cluster, topic) == [b"one", b"two"]


def test_coordinator_of_a_group_restarts_in_order(cluster: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = _topic(cluster, topic_name)
    assert _produce(cluster.bootstrap, topic, b"one") is None
    _commit(cluster, topic, topic)
    coordinator = cluster.coordinator(topic)
    before = coordinator.process.process.pid
    coordinator.restart()
    assert coordinator.process.process.pid != before
    cluster.wait_healthy()
    assert reader.position(cluster.direct, topic, topic, 1) == {0: 1}


def test_group_whose_coordinator_cannot_be_reached_hides_no_other(
    cluster: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    topic = _topic(cluster, topic_name)
    admin = KafkaAdmin({"bootstrap.servers": cluster.bootstrap}, 60.0)
    groups = [f"{topic}-{number}" for number in range(12)]
    for group in groups:
        Offsets(admin, 60.0).move(group, topic, [Move(0, -1, 0)])
    away, other = list({cluster.coordinator(group).id: group for group in groups}.values())[:2]
    describe = partial(admin.groups.describe_all, limit_s=10.0)

    def committed(groups: Collection[str], failed: OnError) -> Mapping[str, dict[int, int]]:
        return Offsets(admin, 10.0).committed_by({group: (topic, [0]) for group in groups}, failed)

    cluster.coordinator(away).proxy.refuse()
    observed = observe_groups(describe, committed, [away, other], [away, other])
    assert observed.states == {away: GroupState.UNKNOWN, other: GroupState.EMPTY}
    assert observed.offsets == {other: {0: 0}}
    assert f"describing group {away}: Kafka does not answer" in observed.unknown[away]
    cluster.heal()
    observed = observe_groups(describe, committed, [away, other], [away, other])
    assert observed.offsets == {away: {0: 0}, other: {0: 0}}
    admin.close()


def test_one_that_is_stopped_goes_on(cluster: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = _topic(cluster, topic_name)
    leader = cluster.leader(topic)
    leader.pause()
    wait_until("another one leads", lambda: cluster.leader(topic) is not leader, LIMIT_S)
    assert leader.running
    assert _produce(cluster.bootstrap, topic, b"one") is None
    leader.resume()
    cluster.wait_healthy()
    assert _values(cluster, topic) == [b"one"]


def test_below_two_replicas_nothing_is_acknowledged(cluster: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = _topic(cluster, topic_name)
    for broker in cluster.others(cluster.leader(topic)):
        broker.kill()
    assert _produce(cluster.bootstrap, topic, b"no", limit_s=3) is not None
    cluster.heal()
    assert _produce(cluster.bootstrap, topic, b"one") is None
    assert _values(cluster, topic)[-1] == b"one"


def test_single_broker_has_a_proxy_too(tmp_path: Path, topic_name: Callable[[], str]) -> None:
    with KafkaCluster(tmp_path, brokers=1) as single:
        topic = _topic(single, topic_name)
        single.brokers[0].proxy.blackhole()
        assert _produce(single.bootstrap, topic, b"lost", limit_s=2) is not None
        single.brokers[0].proxy.forward()
        assert _produce(single.bootstrap, topic, b"one") is None
        assert _values(single, topic) == [b"one"]
