"""Which requests the console answers: tables of cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.urls import is_loopback
from web.console.safety import (
    HEADERS,
    Mode,
    host_problem,
    is_open_to_others,
    mode_of,
    origin_problem,
    path_after_login,
)


@pytest.mark.parametrize(
    ("wish", "bind", "has_tokens", "mode"),
    [
        ("auto", "127.0.0.1", False, "read"),
        ("auto", "::1", False, "read"),
        ("auto", "127.0.0.2", False, "read"),
        ("auto", "0.0.0.0", False, "off"),
        ("auto", "::", False, "off"),
        ("auto", "192.0.2.7", False, "off"),
        ("auto", "0.0.0.0", True, "read"),
        ("off", "127.0.0.1", True, "off"),
        ("read", "127.0.0.1", False, "read"),
        ("write", "127.0.0.1", False, "write"),
        ("write", "0.0.0.0", True, "write"),
    ],
)
def test_mode_follows_from_the_setting_the_address_and_the_tokens(
    wish: str, bind: str, has_tokens: bool, mode: str
) -> None:
    assert mode_of(wish, bind, has_tokens) == Mode(mode)
    assert not is_open_to_others(wish, bind, has_tokens)


@pytest.mark.parametrize("wish", ["read", "write"])
@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.0.2.7"])
def test_console_that_everybody_could_use_is_refused(wish: str, bind: str) -> None:
    assert is_open_to_others(wish, bind, has_tokens=False)


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("localhost", True),
        ("localhost:8081", True),
        ("LOCALHOST:9000", True),
        ("127.0.0.1:8081", True),
        ("[::1]:8081", True),
        ("[::1]", True),
        ("evil.example:8081", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.nip.io:8081", False),
        ("192.0.2.7:8081", False),
        ("0.0.0.0:8081", False),
        ("localhost:0", False),
        ("localhost:port", False),
        ("user@localhost", False),
        ("localhost/x", False),
        ("localhost, evil.example", False),
        ("[::1", False),
        ("", False),
        (None, False),
    ],
)
def test_without_a_login_only_names_of_this_machine_are_answered(host: str | None, answered: bool) -> None:
    assert (host_problem(host, has_tokens=False) is None) is answered


@pytest.mark.parametrize(
    ("host", "answered"), [("penstock.example:8081", True), ("192.0.2.7", True), ("a b", False), ("", False)]
)
def test_with_a_login_any_valid_name_is_answered(host: str, answered: bool) -> None:
    assert (host_problem(host, has_tokens=True) is None) is answered


@given(st.text())
def test_name_that_is_not_this_machines_never_passes_as_one(name: str) -> None:
    if host_problem(f"{name}.example", has_tokens=False) is None:
        raise AssertionError(name)
    assert not is_loopback(f"{name}.example")


@pytest.mark.parametrize(
    ("origin", "fetch_site", "scheme", "host", "counts"),
    [
        ("http://localhost:8081", "same-origin", "http", "localhost:8081", True),
        ("http://localhost:8081", None, "http", "localhost:8081", True),
        ("HTTP://LOCALHOST:8081", None, "http", "localhost:8081", True),
        (None, "same-origin", "http", "localhost:8081", True),
        ("https://penstock.example", None, "http", "penstock.example", True),
        ("https://penstock.example", None, "https", "penstock.example", True),
        ("http://penstock.example", None, "https", "penstock.example", False),
        (None, None, "http", "localhost:8081", False),
        ("null", None, "http", "localhost:8081", False),
        ("null", "same-origin", "http", "localhost:8081", False),
        ("http://localhost:8080", None, "http", "localhost:8081", False),
        ("http://evil.example", None, "http", "localhost:8081", False),
        ("http://localhost:8081", "cross-site", "http", "localhost:8081", False),
        ("http://localhost:8081", "same-site", "http", "localhost:8081", False),
        (None, "none", "http", "localhost:8081", False),
        ("", None, "http", "localhost:8081", False),
    ],
)
def test_form_counts_when_a_page_of_ours_sent_it(
    origin: str | None, fetch_site: str | None, scheme: str, host: str, counts: bool
) -> None:
    assert (origin_problem(origin, fetch_site, scheme, host) is None) is counts


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", "/"),
        ("/subscription/demo/billing?q=a%20b", "/subscription/demo/billing?q=a%20b"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("\\\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("evil", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("/\t/evil.example", "/"),
        ("", "/"),
    ],
)
def test_login_leads_to_a_page_of_the_console_only(text: str, path: str) -> None:
    assert path_after_login(text) == path


def test_policy_allows_no_inline_code_no_eval_and_no_other_host() -> None:
    rules = dict(rule.split(" ", 1) for rule in HEADERS["Content-Security-Policy"].split("; "))

    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert {rules[kind] for kind in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
