"""What header lines say about how to read a request."""

from __future__ import annotations

import pytest

from knative import memo
from web.http import headers
from web.http.config import DriverConfig, HttpRejection

CONFIG = DriverConfig(event_bytes_max=1000, header_count_max=5)


def test_ordinary_head_has_host_length_and_expectation() -> None:
    pairs = [(b"HOST", b"a:80"), (b"Content-Length", b"12"), (b"ce-id", b"1"), (b"Expect", b"100-Continue")]
    assert headers.inspect(pairs, CONFIG) == (b"a:80", 12, False, True)
    assert headers.inspect([(b"transfer-encoding", b"Chunked")], CONFIG) == (None, None, True, False)
    assert headers.inspect([], CONFIG) == (None, None, False, False)


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        ([(b"host", b"a"), (b"Host", b"a")], 400),
        ([(b"transfer-encoding", b"gzip, chunked")], 400),
        ([(b"transfer-encoding", b"chunked"), (b"Transfer-Encoding", b"chunked")], 400),
        ([(b"content-encoding", b"gzip")], 400),
        ([(b"content-length", b"1001")], 413),
        ([(b"content-length", b"0" * 5000 + b"1")], 413),
        ([(b"a", b"b")] * 6, 431),
    ],
)
def test_ambiguous_head_is_refused(pairs: headers.Pairs, status: int) -> None:
    for _ in range(2):  # the second time every name has been met
        with pytest.raises(HttpRejection) as refusal:
            headers.inspect(pairs, CONFIG)
        assert refusal.value.status == status


@pytest.mark.parametrize(
    "host", [b"a", b"a.b:8080", b"127.0.0.1", b"[::1]", b"[fe80::1%25eth0]:80", b"", b"a_b.c", b"a.:1"]
)
def test_valid_host_is_accepted(host: bytes) -> None:
    assert headers.inspect([(b"host", host)], CONFIG)[0] == host


@pytest.mark.parametrize(
    "host", [b"a b", b"a,b", b"a/b", b"u@a", b"a:b", b"a:80:80", b"[::1", b"a\\b", b"x" * 301, b"a?b", b"a#b"]
)
def test_invalid_host_is_rejected(host: bytes) -> None:
    with pytest.raises(HttpRejection, match="the Host header is not a valid host"):
        headers.inspect([(b"host", host)], CONFIG)


def test_header_that_is_not_utf8_is_rejected() -> None:
    headers.check_text([(b"x", "ü€".encode())])
    with pytest.raises(HttpRejection, match="header x is not UTF-8"):
        headers.check_text([(b"x", b"\xff")])


def test_names_met_are_bounded() -> None:
    for number in range(5000):
        headers.inspect([(b"x-%d" % number, b"")], CONFIG)
    assert len(headers._ordinary) <= memo.ENTRIES_MAX
    assert headers.inspect([(b"hOsT", b"a")], CONFIG)[0] == b"a", "watched headers are seen in a full table too"


def test_target_is_split_into_path_and_host() -> None:
    assert headers.split_target(b"/a?b", b"h") == (b"/a?b", b"h")
    assert headers.split_target(b"*", b"h") == (b"*", b"h")
    assert headers.split_target(b"http://H:1/a?b", b"h:1") == (b"/a?b", b"H:1")
    assert headers.split_target(b"http://h", None) == (b"/", b"h")
    assert headers.split_target(b"http://h?x", b"h") == (b"/?x", b"h")
    assert headers.split_target(b"http://other/a", b"h") == (b"/a", b"other"), "Host is ignored"
    assert headers.split_target(b"http://h:80/", b"h") == (b"/", b"h:80")
    assert headers.split_target(b"HTTP://[::1]:8/", b"h") == (b"/", b"[::1]:8")
    for target in (b"ftp://h/", b"h:80", b"http://a@h/", b"http:///a", b"http://", b"http://:80/", b"http://h:x/", b""):
        with pytest.raises(HttpRejection):
            headers.split_target(target, b"h")


def test_head_is_written_again_without_upgrade() -> None:
    pairs = [(b"Host", b"x"), (b"UPGRADE", b"h2c"), (b"a", b"b")]
    assert headers.without_upgrade(b"POST", b"/a", "1.1", pairs) == b"POST /a HTTP/1.1\r\nHost: x\r\na: b\r\n\r\n"
