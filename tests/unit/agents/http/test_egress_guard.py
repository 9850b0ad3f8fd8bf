"""Which addresses events may be sent to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.http.egress_guard import EgressConfig, EgressGuard

OPEN = EgressGuard()
SHUT = EgressGuard(EgressConfig(allow_loopback=False, allow_private=False))

NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "169.254.255.255",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "239.255.255.255",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    # the same in disguise
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::",
    "2001:0:102:304:0:0:5601:5601",  # Teredo: ~169.254.169.254
    "2001:db8::5efe:169.254.169.254",
    "2001:db8::200:5efe:a9fe:a9fe",
    "::ffff:0.0.0.0",
    "::ffff:255.255.255.255",
    "::5",
]
LOOPBACK = ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
PRIVATE = [
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.0.1",
    "198.18.0.1",
    "fc00::1",
    "fdff::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:c0a8:101::1",
]
PUBLIC = [
    "1.1.1.1",
    "172.15.255.255",
    "172.32.0.1",
    "100.128.0.1",
    "192.0.1.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
]
EVERYWHERE = EgressGuard(EgressConfig(allow=("0.0.0.0/0", "::/0")))


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("guard", [OPEN, SHUT, EVERYWHERE])
def test_reserved_address_is_denied_by_every_guard(guard: EgressGuard, address: str) -> None:
    assert guard.judge(address)


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_by_its_switch(address: str) -> None:
    assert OPEN.judge(address) is None
    assert "loopback" in (EgressGuard(EgressConfig(allow_loopback=False)).judge(address) or "")
    assert EgressGuard(EgressConfig(allow_private=False)).judge(address) is None


@pytest.mark.parametrize("address", PRIVATE)
def test_private_by_its_switch(address: str) -> None:
    assert OPEN.judge(address) is None
    assert "private" in (EgressGuard(EgressConfig(allow_private=False)).judge(address) or "")
    assert EgressGuard(EgressConfig(allow_loopback=False)).judge(address) is None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed_by_every_guard(address: str) -> None:
    assert OPEN.judge(address) is None
    assert SHUT.judge(address) is None


def test_reasons_name_what_is_in_disguise() -> None:
    assert OPEN.judge("169.254.169.254") == "is a cloud metadata address"
    assert OPEN.judge("::ffff:169.254.169.254") == "stands for 169.254.169.254, which is a cloud metadata address"
    assert OPEN.judge("169.254.1.1") == "is link-local"


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4:80", "[::1]", "a\r\nb"]
)
def test_invalid_address_is_denied(text: str) -> None:
    assert OPEN.judge(text) == "is not a valid IP address"


def test_denied_network_is_refused_also_within_an_allowed_one() -> None:
    guard = EgressGuard(EgressConfig(deny=("10.1.0.0/16", "2606:4700::/32"), allow=("10.0.0.0/8",)))
    assert guard.judge("10.1.2.3") == "is denied by PENSTOCK_EGRESS_DENY"
    assert guard.judge("::ffff:10.1.2.3")
    assert guard.judge("2606:4700::1")
    assert guard.judge("10.2.2.3") is None


def test_allowed_networks_are_exempt_from_the_switches_only() -> None:
    guard = EgressGuard(EgressConfig(allow_loopback=False, allow_private=False, allow=("10.1.0.0/16", "127.0.0.2/32")))
    assert guard.judge("10.1.2.3") is None
    assert guard.judge("127.0.0.2") is None
    assert guard.judge("10.2.2.3")
    assert guard.judge("127.0.0.1")
    assert guard.judge("1.1.1.1") is None


def test_invalid_network_is_rejected_at_start() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/99"):
        EgressGuard(EgressConfig(deny=("10.0.0.0/99",)))


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    OPEN.judge(text)


@given(st.ip_addresses(v=4))
def test_mapped_address_is_judged_like_the_address(address: ipaddress.IPv4Address) -> None:
    bits = int(address)
    disguises = [f"::ffff:{address}", str(ipaddress.IPv6Address((0x2002 << 112) | (bits << 80)))]
    for guard in (OPEN, SHUT):
        refused = guard.judge(str(address)) is not None
        assert all((guard.judge(each) is not None) == refused for each in disguises)
