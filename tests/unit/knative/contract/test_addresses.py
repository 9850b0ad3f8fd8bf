"""Whether a URL is an address of the contract, by the rules of ingress."""

from __future__ import annotations

import pytest

from knative.contract.addresses import Addresses
from knative.contract.records import BROKER, CHANNEL, Channel

CHANNELS = (
    Channel(
        "c", 1, "shop", "orders", "t1", "t1.dlq", 1, hosts=("orders-kn-channel.shop.svc.cluster.local", "O.example")
    ),
    Channel("b", 1, "shop", "main", "t2", "t2.dlq", 1, hosts=("main.example",), kind=BROKER),
)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("http://orders-kn-channel.shop.svc.cluster.local", "orders"),
        ("http://orders-kn-channel.shop.svc.cluster.local:80/?a=b", "orders"),
        ("https://o.EXAMPLE./", "orders"),
        ("http://main.example/", "main"),
        ("http://127.0.0.1:8080/channels/shop/orders", "orders"),
        ("http://any/channels/shop/orders/?a=b", "orders"),
        ("http://any/shop/main", "main"),
        ("http://any/brokers/shop/main", "main"),
        ("http://any/shop/orders", None),
        ("http://any/channels/shop/main", None),
        ("http://any/brokers/shop/orders", None),
        ("http://any/brokers/shop/main/more", None),
        ("http://any/", None),
        ("http://main.example/other", None),
    ],
)
def test_address_leads_to_its_channel(uri: str, name: str | None) -> None:
    channel = Addresses(CHANNELS).channel_at(uri)
    assert (channel and channel.name) == name


def test_topic_belongs_to_one_channel() -> None:
    addresses = Addresses(CHANNELS)
    assert addresses.channel_of_topic("t1") is CHANNELS[0]
    assert addresses.channel_of_topic("t1.dlq") is None
    assert {channel.kind for channel in CHANNELS} == {CHANNEL, BROKER}
