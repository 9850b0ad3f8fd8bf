"""What a URI says to a connection, and what it may not smuggle into a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.http.endpoint import BadEndpoint, read_endpoint


@pytest.mark.parametrize(
    ("uri", "host", "port", "authority", "path"),
    [
        ("http://a", "a", 80, "a", "/"),
        ("HTTP://A.Svc.Cluster.Local/", "a.svc.cluster.local", 80, "a.svc.cluster.local", "/"),
        ("http://a:80/x", "a", 80, "a", "/x"),
        ("https://a:443/x", "a", 443, "a", "/x"),
        ("https://a/", "a", 443, "a", "/"),
        ("http://a:443/", "a", 443, "a:443", "/"),
        ("http://a:/", "a", 80, "a", "/"),
        ("http://a?b=c", "a", 80, "a", "/?b=c"),
        ("http://a/b/?c=d&e=f?g/h#i", "a", 80, "a", "/b/?c=d&e=f?g/h"),
        ("http://a/%20%2F%zz%", "a", 80, "a", "/%20%2F%25zz%25"),
        ("http://a/\u00e9/\u20ac", "a", 80, "a", "/%C3%A9/%E2%82%AC"),
        ('http://a/"<>\\^`{|}', "a", 80, "a", "/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("http://a/:@!$&'()*+,;=-._~", "a", 80, "a", "/:@!$&'()*+,;=-._~"),
        ("http://a//b", "a", 80, "a", "//b"),
        ("http://b\u00fccher.example/", "xn--bcher-kva.example", 80, "xn--bcher-kva.example", "/"),
        ("http://under_score.a./", "under_score.a.", 80, "under_score.a.", "/"),
        ("http://[::1]:8080/", "::1", 8080, "[::1]:8080", "/"),
        ("http://[2001:DB8:0::1]/", "2001:db8::1", 80, "[2001:db8::1]", "/"),
        ("http://127.0.0.1:8080/", "127.0.0.1", 8080, "127.0.0.1:8080", "/"),
    ],
)
def test_uri_has_a_host_a_port_and_a_path(uri: str, host: str, port: int, authority: str, path: str) -> None:
    target = read_endpoint(uri)
    assert (target.host, target.port, target.authority, target.path) == (host, port, authority, path)
    assert target.tls == uri.lower().startswith("https")
    assert (target.address is not None) == (":" in host or host[0] == "1")


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "http"),
        ("a", "http"),
        ("//a/", "http"),
        ("ftp://a/", "http"),
        ("unix:///run/x", "http"),
        ("http://", "host"),
        ("http:///x", "host"),
        ("http://:80/", "host"),
        ("http://user@a/", "credentials"),
        ("http://user:secret@a/", "credentials"),
        ("http://@a/", "credentials"),
        ("http://a:0/", "port 0"),
        ("http://a:65536/", "read"),
        ("http://a:b/", "read"),
        ("http://a:secret/", "read"),
        ("http://[::1/", "read"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://a\r\nx: y/", "control"),
        ("http://a/\r\nx: y", "control"),
        ("http://a/\tb", "control"),
        ("http://a/\x00", "control"),
        ("http://a/b c", "white space"),
        (" http://a/", "white space"),
        ("http://a..b/", "host"),
        ("http://a%0d%0a/", "host"),
        (f"http://{'a' * 64}/", "host"),
        (f"http://{'a.' * 130}b/", "host"),
        ("http://\u00e9..b/", "domain"),
    ],
)
def test_invalid_uri_is_refused_without_its_secrets(uri: str, why: str) -> None:
    with pytest.raises(BadEndpoint, match=why) as caught:
        read_endpoint(uri)
    assert "secret" not in str(caught.value)


def test_prefix_has_the_request_line_and_the_headers_of_all_requests() -> None:
    assert read_endpoint("http://a/b").prefix("ns-1") == (
        b"POST /b HTTP/1.1\r\nhost: a\r\nuser-agent: penstock\r\nprefer: reply\r\nkn-namespace: ns-1"
    )


@pytest.mark.parametrize("namespace", ["", "a b", "a\r\nx: y", "\u00e9", "a\x00"])
def test_namespace_that_would_break_the_head(namespace: str) -> None:
    with pytest.raises(ValueError, match="namespace"):
        read_endpoint("http://a/b").prefix(namespace)


_TEXT = st.text(max_size=20)


@given(_TEXT | st.builds("http://{}/{}?{}".format, _TEXT, _TEXT, _TEXT) | st.builds("https://a.b/{}".format, _TEXT))
def test_nothing_gets_out_of_its_line(uri: str) -> None:
    try:
        prefix = read_endpoint(uri).prefix("ns")
    except BadEndpoint:
        return
    request, host, *rest = prefix.split(b"\r\n")
    assert len(rest) == 3
    assert len(request.split(b" ")) == 3
    assert len(host.split(b" ")) == 2
    assert all(0x20 <= code < 0x7F for code in request + host)
