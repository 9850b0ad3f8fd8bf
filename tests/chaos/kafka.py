"""Ways in which three brokers, and the network before them, fail: broken while the context is open, mended after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from knative.contract.kafka_names import fanout_group
from tests.support.installation import Installation
from tests.support.kafka_cluster import Broker, KafkaCluster

#: Given the cluster and the installation: what is broken while the context is open.
Breaks = Callable[[KafkaCluster, Installation], AbstractContextManager[None]]


def coordinator(cluster: KafkaCluster, installation: Installation) -> Broker:
    """The broker that takes the commits of the ordered subscription; with triggers, the one that has their members."""
    if installation.is_broker:
        return cluster.coordinator(fanout_group(installation.name, installation.resources.topic))
    return cluster.coordinator(installation.group("ordered"))


def leader(cluster: KafkaCluster, installation: Installation) -> Broker:
    """The broker that takes the events of the channel's first partition."""
    return cluster.leader(installation.resources.topic)


def frozen(choose: Callable[[KafkaCluster, Installation], Broker]) -> Breaks:
    """SIGSTOP: connections stay open, nothing is answered."""

    @contextmanager
    def breaks(cluster: KafkaCluster, installation: Installation) -> Iterator[None]:
        broker = choose(cluster, installation)
        broker.pause()
        try:
            yield
        finally:
            broker.resume()

    return breaks


def killed(choose: Callable[[KafkaCluster, Installation], Broker]) -> Breaks:
    """SIGKILL, and a start at the end."""

    @contextmanager
    def breaks(cluster: KafkaCluster, installation: Installation) -> Iterator[None]:
        broker = choose(cluster, installation)
        broker.kill()
        yield
        broker.start()

    return breaks


@contextmanager
def all_killed(cluster: KafkaCluster, _: Installation) -> Iterator[None]:
    """SIGKILL of every broker."""
    for broker in cluster.brokers:
        broker.kill()
    yield
    cluster.heal()


@contextmanager
def below_min_isr(cluster: KafkaCluster, installation: Installation) -> Iterator[None]:
    """Two of three brokers are gone: what is left may take no events."""
    gone = cluster.others(leader(cluster, installation))
    for broker in gone:
        broker.kill()
    yield
    cluster.heal()


@contextmanager
def rolling_restart(cluster: KafkaCluster, _: Installation) -> Iterator[None]:
    """Each broker stops in order and starts again, one after the other."""
    for broker in cluster.brokers:
        broker.restart()
        cluster.wait_healthy()
    yield


def network(break_: Callable[[Broker], None]) -> Breaks:
    """The proxy of every broker does something else than pass on."""

    @contextmanager
    def breaks(cluster: KafkaCluster, _: Installation) -> Iterator[None]:
        for broker in cluster.brokers:
            break_(broker)
        try:
            yield
        finally:
            for broker in cluster.brokers:
                broker.proxy.forward()

    return breaks
