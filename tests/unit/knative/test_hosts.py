"""Which namespace a host belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.host_table import channels_by_host
from knative.contract.records import Channel
from knative.hosts import channel_host, owner_by_address, owner_by_service, plain_host


@pytest.mark.parametrize(
    ("host", "by_address", "by_service"),
    [
        ("orders-kn-channel.shop.svc", "shop", "shop"),
        ("orders-kn-channel.shop.svc.cluster.local", "shop", "shop"),
        ("orders-kn-channel.shop.svc.any.other.domain", "shop", "shop"),
        ("orders-kn-channel.shop", "shop", None),  # a resolver in the cluster completes it
        ("eu.orders-kn-channel.shop.svc", "shop", "shop"),  # of a channel with a dot in its name
        ("orders-kn-channel..svc", "", ""),
        ("orders-kn-channel.svc.svc.cluster.local", "svc", "svc"),
        ("front.shop.svc", None, "shop"),
        ("pod-0.front.shop.svc.cluster.local", None, "shop"),
        ("orders-kn-channel.mine.svc.cluster.local", None, None),
        ("front.mine.svc", None, None),
        ("orders-kn-channel.mine", None, None),
        ("orders-kn-channel", None, None),
        ("orders-kn-channel.shop.example", None, None),
        ("front.svc.example.com", None, None),
        ("events.example.com", None, None),
        ("shop.svc", None, None),
        ("", None, None),
    ],
)
def test_owner_of_a_host_that_the_namespace_mine_claims(
    host: str, by_address: str | None, by_service: str | None
) -> None:
    assert owner_by_address(host, "mine") == by_address
    assert owner_by_service(host, "mine") == by_service


_LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@given(_LABEL, _LABEL, _LABEL, st.sampled_from(["", ".cluster.local", ".a"]), st.sampled_from(["", ".", ":80", ".:80"]))
def test_address_is_only_its_namespaces(name: str, namespace: str, other: str, domain: str, end: str) -> None:
    host = plain_host(f"{channel_host(namespace, name)}{domain}{end}".upper())
    assert owner_by_address(host, namespace) is None
    assert (owner_by_address(host, other) is None) == (other == namespace)


def channel(uid: str, namespace: str, *hosts: str) -> Channel:
    return Channel(uid, 1, namespace, uid, f"t.{uid}", f"t.{uid}.dlq", 1, hosts)


def test_table_has_no_host_of_another_namespace_and_none_that_two_claim() -> None:
    orders = channel("orders", "shop", "orders-kn-channel.shop.svc", "both.example", "Orders.example.")
    thief = channel("thief", "attacker", "orders-kn-channel.shop.svc", "both.example", "thief.example")
    third = channel("third", "attacker", "both.example", "third.example", "third.example")
    expected = {
        "orders-kn-channel.shop.svc": orders,
        "orders.example": orders,
        "thief.example": thief,
        "third.example": third,
    }
    assert channels_by_host([orders, thief, third]) == expected
    assert channels_by_host([third, thief, orders]) == expected
