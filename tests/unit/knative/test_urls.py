"""URLs as people see them: no user, no password, no query, whatever was written."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.urls import quoted, shown_key, shown_url


@pytest.mark.parametrize(
    ("url", "expected"),
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
def test_url_is_shown_without_user_and_query(url: str, expected: str) -> None:
    assert shown_url(url) == expected
    assert shown_url(expected) == expected


_PART = st.text("ab:@%.~-", max_size=8)


@given(host=st.text("abc.-", min_size=1, max_size=5), user=_PART, path=_PART, query=st.text("xyz?/@:#=&", max_size=8))
def test_what_is_left_is_the_place(host: str, user: str, path: str, query: str) -> None:
    whole = f"http://{user}@{host}/{path}?{query}"
    parts = urlsplit(shown_url(whole))
    assert (parts.netloc, parts.path, parts.query, parts.fragment) == (host, f"/{path}", "", "")


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("fast", 64, "'fast'"),
        ("abcdef", 3, "'abc'"),
        ("a/b:c", 64, "'a/b:c'"),
        ("a?b#c", 64, "'a?...'"),
        ("a#b?c", 64, "'a#...'"),
        ("host:8080/p?key=secret", 64, "'host:8080/p?...'"),
        ("/path?secret", 64, "'/path?...'"),
        ("http://host:secret", 64, "'http://...'"),
        ("http://me:secret@h/p?key", 64, "'...@...'"),
        ("http://u:pw/secret@h/", 64, "'...@...'"),
        ("u:pw?secret@h", 64, "'...@...'"),
        ("h/?mail=me@secret", 64, "'...@...'"),
    ],
)
def test_text_is_quoted_up_to_its_limit(text: str, most: int, expected: str) -> None:
    assert quoted(text, most) == expected


@given(
    before=st.text("ab:/.", max_size=5), sign=st.sampled_from(["//", "?", "#", "@"]), after=st.text("xyz@?", max_size=5)
)
def test_nothing_after_a_sign_of_a_url_is_quoted(before: str, sign: str, after: str) -> None:
    assert not set("xyz") & set(quoted(f"{before}{sign}{after}"))
    assert sign != "@" or not set("ab") & set(quoted(f"{before}{sign}{after}"))


@pytest.mark.parametrize(
    ("key", "expected"),
    [("uri", "uri"), ("penstock.dev/hosts", "penstock.dev/hosts"), ("http://h/?secret", "'http://...'")],
)
def test_key_in_a_path_is_shown_unless_it_is_a_url(key: str, expected: str) -> None:
    assert shown_key(key) == expected
