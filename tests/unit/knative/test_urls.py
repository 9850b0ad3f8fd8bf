"""URLs as people see them: no user, no password, no query, whatever was written."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.urls import quoted, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("http://h/p", "http://h/p"),
        ("HTTPS://h:8443/a/b/", "HTTPS://h:8443/a/b/"),
        ("http://h/p?key=1&b&c=", "http://h/p"),
        ("http://h?key", "http://h"),
        ("http://h/p#f?x", "http://h/p"),
        ("http://h/@user/p@x?mail=a@b", "http://h/@user/p@x"),
        ("http://user@h/p", "http://h/p"),
        ("http://user:pass@word@h:80/p?q", "http://h:80/p"),
        ("http://[::1]:80/p?q", "http://[::1]:80/p"),
        ("//user:p@h/x", "//h/x"),
        ("/path?q", "/path"),
        ("kafka:topic", "kafka:topic"),
        ("http://h/p?a\nb", "http://h/p"),
    ],
)
def test_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_url(shown) == shown


_PART = st.text("ab:@%.~-", max_size=8)


@given(host=st.text("abc.-", min_size=1, max_size=5), user=_PART, path=_PART, query=st.text("xyz?/@:#=&", max_size=8))
def test_what_is_left_is_the_place(host: str, user: str, path: str, query: str) -> None:
    whole = f"http://{user}@{host}/{path}?{query}"
    found = urlsplit(shown_url(whole))
    assert (found.netloc, found.path, found.query, found.fragment) == (host, f"/{path}", "", "")


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("fast", 64, "'fast'"),
        ("a?b#c", 64, "'a?b#c'"),
        ("http://me:secret@h/p?key", 64, "'http://h/p'"),
        ("abcdef", 3, "'abc'"),
        ("http://user:secret@host/", 10, "'http://hos'"),
    ],
)
def test_quoted(text: str, most: int, shown: str) -> None:
    assert quoted(text, most) == shown
