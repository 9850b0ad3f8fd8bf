"""How long the chain of an event may become over the addresses of the installation."""

from __future__ import annotations

import pytest

from agents.dispatch.hops import Hops, OwnAddresses, TooManyHops
from knative.cloudevents.http_binding import REPLY_DEPTH, to_record
from knative.cloudevents.kafka_binding import to_request
from knative.contract.records import BROKER, Channel
from knative.delivery.policy import Addressable
from knative.ports import Headers
from tests.unit.knative.cloudevents.wire import Parsed

BROKER_ = Channel("b", 1, "shop", "main", "t2", "t2.dlq", 1, kind=BROKER)
OWN, OTHER = Addressable("http://any/shop/main"), Addressable("http://any/shop/other")
PREFIX = b"POST /shop/main HTTP/1.1\r\nhost: any"
EVENT: Headers = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]


def test_only_requests_to_own_addresses_count() -> None:
    addresses = OwnAddresses()
    hops = Hops(3, addresses)
    assert hops.counted(to_request, OWN) is to_request
    addresses.use([BROKER_])
    assert hops.counted(to_request, OTHER) is to_request
    assert hops.counted(to_request, OWN) is not to_request


@pytest.mark.parametrize("depth", [None, b"1", b"2", b"x"])
def test_event_comes_back_with_a_longer_chain(depth: bytes | None) -> None:
    make = Hops(3, OwnAddresses([BROKER_])).counted(to_request, OWN)
    headers = [*EVENT, *([] if depth is None else [(REPLY_DEPTH, depth)])]
    request = Parsed(make(PREFIX, headers, b"{}"))
    stored = dict(to_record(request.pairs, request.body)[0])
    assert stored[REPLY_DEPTH] == {b"1": b"2", b"2": b"3"}.get(depth or b"", b"1")


def test_chain_that_is_too_long_is_not_sent() -> None:
    make = Hops(3, OwnAddresses([BROKER_])).counted(to_request, OWN)
    with pytest.raises(TooManyHops) as caught:
        make(PREFIX, [*EVENT, (REPLY_DEPTH, b"3")], b"{}")
    assert caught.value.verdict.code == 508
    assert "more than 3 replies and deliveries led to this event" in caught.value.verdict.reason


def test_followers_hear_of_a_change() -> None:
    addresses, heard = OwnAddresses(), list[int]()
    listener = lambda: heard.append(1)  # noqa: E731
    addresses.follow(listener)
    addresses.use([BROKER_])
    addresses.unfollow(listener)
    addresses.use([])
    assert heard == [1]
