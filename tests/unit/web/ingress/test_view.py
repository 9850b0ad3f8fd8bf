"""What ingress remembers of requests."""

from __future__ import annotations

import sys

import pytest

from knative.contract.records import Channel
from tests.support.fakes import CountingObserve, MemoryContract, MemoryProduce
from web.ingress.view import Ingress, IngressConfig

ORDERS = Channel("u1", 1, "demo", "orders", "t.orders", "t.orders.dlq", 4, ("orders.example.com",))


@pytest.mark.parametrize("query_bytes", [0, 100, 8000])
def test_queries_that_are_always_other_ones_do_not_fill_memory(query_bytes: int) -> None:
    ingress = Ingress(IngressConfig(), MemoryContract(ORDERS), MemoryProduce(), CountingObserve())
    for number in range(5000):
        target = b"/channels/demo/orders?%d%s" % (number, b"x" * query_bytes)
        assert ingress.channel(target, b"events.example.com") is ORDERS
    assert sum(sys.getsizeof(target) for target, _ in ingress.cache) < 4096 * 600


def test_ordinary_targets_are_remembered() -> None:
    """Also one with the longest names that there are."""
    longest = Channel("u2", 1, "n" * 63, "c" * 253, "t", "t.dlq", 4)
    ingress = Ingress(IngressConfig(), MemoryContract(ORDERS, longest), MemoryProduce(), CountingObserve())
    addresses = [(b"/", b"orders.example.com"), (f"/channels/{longest.namespace}/{longest.name}".encode(), None)]
    for target, host in addresses:
        ingress.channel(target, host)
    assert list(ingress.cache.items()) == list(zip(addresses, [ORDERS, longest], strict=True))
