"""Which requests carry the installation's own token: those to the exact origin of its ingress."""

from __future__ import annotations

import pytest

from agents.http.endpoint import BadEndpoint, read_endpoint
from agents.http.own_ingress import OwnIngress


@pytest.mark.parametrize(
    ("uri", "own"),
    [
        ("https://events.example/", True),
        ("https://events.example/channels/a/b?c", True),
        ("HTTPS://EVENTS.example:443/base/", True),
        ("http://events.example/", False),
        ("http://events.example:443/", False),
        ("https://events.example:8443/", False),
        ("https://events.example./", False),
        ("https://events.example.evil.example/", False),
        ("https://evil.example/events.example", False),
        ("https://xevents.example/", False),
        ("https://example/", False),
        ("https://127.0.0.1/", False),
    ],
)
def test_uri_is_own_only_at_the_exact_origin(uri: str, own: bool) -> None:
    assert OwnIngress("https://events.example/base").has(read_endpoint(uri)) is own


def test_uri_with_credentials_is_not_valid() -> None:
    with pytest.raises(BadEndpoint, match="credentials"):
        OwnIngress("https://user@events.example")


def test_who_follows_hears_of_changes_only() -> None:
    own, heard = OwnIngress("http://h"), list[str | None]()

    def changed() -> None:
        heard.append(own.authorization)

    assert own.authorization is None
    own.follow(changed)
    for token in ("a", "a", "b"):
        own.use(token)
    own.unfollow(changed)
    own.use("c")
    assert heard == ["Bearer a", "Bearer b"]
    assert own.authorization == "Bearer c"


def test_token_is_not_shown() -> None:
    own = OwnIngress("http://h")
    own.use("canary")
    assert "canary" not in f"{own!r} {own}"


def test_head_has_the_token_only_where_one_is_given() -> None:
    endpoint = read_endpoint("http://h/p")
    assert b"authorization" not in endpoint.prefix("ns")
    assert endpoint.prefix("ns", "Bearer t") == endpoint.prefix("ns") + b"\r\nauthorization: Bearer t"
