"""Host and path -> channel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knative.contract.records import Channel
from web.ingress.channel_resolver import ChannelResolver, NotFound, NotYet, plain_host, split_host, split_path


def channel(uid: str, namespace: str, name: str, *hosts: str, kind: str = "KafkaChannel") -> Channel:
    """A channel with that name."""
    return Channel(uid, 1, namespace, name, f"t.{uid}", f"t.{uid}.dlq", 1, hosts, kind)


ORDERS = channel("u1", "demo", "orders", "orders.example.com")
ODD = channel(
    *("u2", "demo", "a-kn-channel"),
    *("odd-kn-channel.demo.svc", "service.elsewhere.svc", "thief-kn-channel.elsewhere.svc", "thief-kn-channel.else"),
    "a.thief-kn-channel.elsewhere.svc.cluster.local",
)
DEFAULT = channel("u3", "demo", "default", kind="Broker")
ROUTES = ChannelResolver([ORDERS, ODD, DEFAULT])


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        (b"x", b"/channels/demo/orders", ORDERS),
        (b"x", b"/channels/demo/orders/", ORDERS),
        (None, b"/channels/demo/orders", ORDERS),
        (b"orders-kn-channel.demo.svc", b"/", ORDERS),
        (b"orders-kn-channel.demo.svc.cluster.local:8080", b"/", ORDERS),
        (b"orders-kn-channel.demo.svc.cluster.local.", b"/", ORDERS),
        (b"Orders-Kn-Channel.DEMO.svc", b"/", ORDERS),
        (b"a-kn-channel-kn-channel.demo.svc", b"/", ODD),
        (b"odd-kn-channel.demo.svc", b"/", ODD),
        (b"service.elsewhere.svc", b"/", ODD),
        (b"orders.example.com", b"/", ORDERS),
        (b"ORDERS.example.com:80", b"/", ORDERS),
        (b"x", b"/demo/default", DEFAULT),
        (b"x", b"/demo/default/", DEFAULT),
    ],
)
def test_host_or_path_leads_to_its_channel(host: bytes | None, path: bytes, expected: Channel) -> None:
    assert ROUTES.resolve(host, path) is expected


@pytest.mark.parametrize(
    ("host", "path"),
    [
        (b"x", b"/"),
        (None, b"/"),
        (b"", b"/"),
        (b"orders-kn-channel.other.svc", b"/"),
        (b"thief-kn-channel.elsewhere.svc", b"/"),
        (b"THIEF-kn-channel.elsewhere.svc.:80", b"/"),
        (b"thief-kn-channel.elsewhere.svc.cluster.local", b"/"),
        (b"thief-kn-channel.else", b"/"),
        (b"a.thief-kn-channel.elsewhere.svc.cluster.local", b"/"),
        (b"orders.demo.svc", b"/"),
        (b"orders-kn-channel.demo", b"/"),
        (b"-kn-channel.demo.svc", b"/"),
        (b"[::1]:8080", b"/"),
        (b"x", b"/channels/demo/nothing"),
        (b"x", b"/channels/demo"),
        (b"x", b"/channels/demo/orders/more"),
        (b"x", b"/channels//orders"),
        (b"x", b"//demo/orders"),
        (b"x", b"/demo/orders"),
        (b"x", b"/channels/demo/default"),
        (b"x", b"/demo"),
        (b"x", b"/d\xc3\xa9mo/default"),
        (b"x", b"/channels/demo/orders//"),
        (b"orders.example.com", b"/x"),
        (b"x", b""),
        (b"x", b"*"),
    ],
)
def test_not_found_says_how_to_address(host: bytes | None, path: bytes) -> None:
    answer = ROUTES.resolve(host, path)
    assert isinstance(answer, NotFound)
    assert "POST /channels/<namespace>/<channel>" in answer.reason
    assert "/<namespace>/<broker>" in answer.reason


def test_before_the_contract_is_read() -> None:
    routes = ChannelResolver([], loaded=False)
    assert isinstance(routes.resolve(b"x", b"/channels/demo/orders"), NotYet)
    assert isinstance(routes.resolve(b"orders-kn-channel.demo.svc", b"/"), NotYet)
    assert isinstance(routes.resolve(b"x", b"/no/such/kind/of/url"), NotFound)


def test_host_that_two_claim_goes_to_neither() -> None:
    first, second = channel("u8", "a", "x", "both", "one"), channel("u7", "b", "x", "Both.", "two")
    for channels in ([first, second], [second, first]):
        routes = ChannelResolver(channels)
        assert isinstance(routes.resolve(b"both", b"/"), NotFound)
        assert routes.resolve(b"one", b"/") is first
        assert routes.resolve(b"two", b"/") is second


def test_path_and_host_are_split_into_names() -> None:
    assert split_path(b"/") == ("", "", "")
    assert split_path(b"/channels/a/b") == ("KafkaChannel", "a", "b")
    assert split_path(b"/channels/a") == ("Broker", "channels", "a")
    assert plain_host(b"A.b.:80") == b"a.b"
    assert plain_host(b"[::1]:80") == b"[::1]"
    assert split_host(b"a-kn-channel.b.svc") == ("b", "a")
    assert split_host(b"a.b.svc") is None


UNLISTED = replace(channel("u4", "demo", "old", "orders.example.com", "old.example.com"), unlisted=True)


@pytest.mark.parametrize(
    ("host", "path"),
    [
        (b"x", b"/channels/demo/old"),
        (b"old-kn-channel.demo.svc", b"/"),
        (b"old.example.com", b"/"),
    ],
)
def test_event_for_a_channel_that_is_in_no_file_is_to_be_sent_again(host: bytes, path: bytes) -> None:
    routes = ChannelResolver([UNLISTED, ORDERS])
    answer = routes.resolve(host, path)
    assert isinstance(answer, NotYet)
    assert "KafkaChannel demo/old is not served" in answer.reason
    assert routes.resolve(b"orders.example.com", b"/") is ORDERS, "a served channel has the host"
