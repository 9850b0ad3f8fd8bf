"""URL patterns."""

from __future__ import annotations

import pytest

from web.http.router import Router, compile_pattern


class Page:
    """Stands for a View."""

    def __init__(self, allow: str = "") -> None:
        self.allow = allow


def test_longest_fixed_beginning_wins() -> None:
    patterns, every, exact, named = Router(), Page("POST"), Page(), Page()
    patterns.add("/{path:.*}", {"GET", "POST"}, every)
    patterns.add("/items/{name}", {"GET"}, named)
    patterns.add("/items/all", {"GET"}, exact)
    for path, page, info in [
        ("/items/all", exact, {}),
        ("/items/b%20c", named, {"name": "b c"}),
        ("/items/b/c", every, {"path": "items/b/c"}),
        ("/", every, {"path": ""}),
    ]:
        match = patterns.find("GET", path)
        assert match is not None
        assert (match.handler, match.info) == (page, info)


def test_method_chooses_the_page_or_the_allowed_ones_are_named() -> None:
    patterns, first, second = Router(), Page(), Page()
    patterns.add("/a/{b}", {"GET", "HEAD"}, first)
    patterns.add("/a/{b}", {"GET", "PUT"}, second)
    for method, page in (("GET", first), ("PUT", second)):
        match = patterns.find(method, "/a/x")
        assert match is not None
        assert match.handler is page
    refused = patterns.find("POST", "/a/x")
    assert refused is not None
    assert (refused.handler, refused.allow) == (None, "GET, HEAD, PUT")
    assert patterns.find("GET", "/b") is None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a.b/{c}", "/a.b/x", True),
        ("/a.b/{c}", "/aXb/x", False),
        ("/{n:[0-9]{2}}", "/12", True),
        ("/{n:[0-9]{2}}", "/123", False),
        ("/{a}/{b}", "/x/y/z", False),
        ("/{a}/", "/x/", True),
    ],
)
def test_pattern_matches_the_whole_path(pattern: str, path: str, matches: bool) -> None:
    assert bool(compile_pattern(pattern).fullmatch(path)) is matches
