"""Who may send: tables of tokens and headers."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from app.worker.secrets.token_file import parse_tokens
from knative import memo
from knative.contract.records import BROKER, CHANNEL, Channel
from web.ingress.admission import Admission, authorization
from web.ingress.responses import NO_TOKEN, UNKNOWN_TOKEN, Response
from web.ingress.senders import TOKEN_BYTES_MAX, Guesses, Sender, Senders, Verdict


def _sum(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


SUM = _sum("t0ken")
ENTRY = {"name": "shop", "sha256": SUM, "channels": ["default/orders"], "brokers": ["team/*"]}


def _channel(kind: str, namespace: str, name: str) -> Channel:
    return Channel("u", 1, namespace, name, "t", "t.dlq", 1, kind=kind)


def _senders(*entries: dict[str, Any]) -> Senders:
    senders, problems = parse_tokens(list(entries))
    assert problems == []
    return Senders(senders)


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "may"),
    [
        (CHANNEL, "default", "orders", True),
        (CHANNEL, "default", "orders2", False),
        (CHANNEL, "other", "orders", False),
        (BROKER, "default", "orders", False),
        (BROKER, "team", "any", True),
        (CHANNEL, "team", "any", False),
    ],
)
def test_sender_may_send_to_its_targets_only(kind: str, namespace: str, name: str, may: bool) -> None:
    sender = _senders(ENTRY).identify(b"Bearer t0ken")
    assert isinstance(sender, Sender)
    assert sender.may_send(_channel(kind, namespace, name)) is may
    answer = Admission.refuse(sender, _channel(kind, namespace, name))
    assert (None if answer is None else answer.status) == (None if may else 403)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"Bearer t0ken", "shop"),
        (b"bearer  t0ken ", "shop"),
        (None, Verdict.NO_TOKEN),
        (b"", Verdict.NO_TOKEN),
        (b"Basic dDprZW4=", Verdict.NO_TOKEN),
        (b"t0ken", Verdict.NO_TOKEN),
        (b"Bearer t0ke", Verdict.UNKNOWN_TOKEN),
        (b"Bearer ", Verdict.UNKNOWN_TOKEN),
        (b"Bearer " + SUM.encode(), Verdict.UNKNOWN_TOKEN),
        (b"Bearer \xff\x00", Verdict.UNKNOWN_TOKEN),
    ],
)
def test_token_tells_its_sender(value: bytes | None, expected: str | Verdict) -> None:
    senders = _senders(ENTRY)
    for _ in range(2):  # the second time it may be remembered
        sender = senders.identify(value)
        assert (sender.name if isinstance(sender, Sender) else sender) == expected


def test_what_is_remembered_does_not_depend_on_spaces() -> None:
    senders = _senders(ENTRY)
    for number in range(3000):
        assert isinstance(senders.identify(b"bearer " + b" " * number + b"t0ken" + b" " * number), Sender)
    assert list(senders._known) == [b"t0ken"]


def test_more_tokens_than_are_remembered() -> None:
    names = [f"t{number}" for number in range(memo.ENTRIES_MAX + 100)]
    senders = _senders(*({**ENTRY, "name": name, "sha256": _sum(name)} for name in names))
    for name in names:
        sender = senders.identify(b"Bearer " + name.encode())
        assert isinstance(sender, Sender)
        assert sender.name == name
    assert len(senders._known) <= memo.ENTRIES_MAX


@pytest.mark.parametrize(("length", "accepted"), [(TOKEN_BYTES_MAX, True), (TOKEN_BYTES_MAX + 1, False)])
def test_token_has_a_length(length: int, accepted: bool) -> None:
    token = "t" * length
    senders = _senders({**ENTRY, "sha256": _sum(token)})
    assert isinstance(senders.identify(b"Bearer  " + token.encode()), Sender) is accepted
    assert (senders.identify(b"Bearer " + token.encode()) is Verdict.UNKNOWN_TOKEN) is not accepted
    assert len(senders._known) == accepted


@pytest.mark.parametrize(
    ("pairs", "value"),
    [
        ([(b"host", b"x")], None),
        ([(b"authorization", b"Bearer a")], b"Bearer a"),
        ([(b"Authorization", b" Bearer a ")], b"Bearer a"),
        ([(b"AUTHORIZATION", b"Bearer a"), (b"host", b"x")], b"Bearer a"),
        ([(b"Authorization", b"a"), (b"authorization", b"b")], None),
        ([(b"x-authorization", b"a"), (b"authorization", b"b")], b"b"),
    ],
)
def test_authorization_is_read_from_its_header(pairs: list[tuple[bytes, bytes]], value: bytes | None) -> None:
    assert authorization(pairs) == value


def test_guesses_are_slowed_down_and_known_tokens_are_not() -> None:
    now_s = 100.0
    admission = Admission(_senders(ENTRY), lambda: now_s)
    answers = [admission.sender(b"Bearer x%d" % number, "10.0.0.1") for number in range(12)]
    assert [answer.status for answer in answers if isinstance(answer, Response)] == [401] * 10 + [429] * 2
    assert answers[0] is UNKNOWN_TOKEN
    assert isinstance(answers[-1], Response)
    assert dict(answers[-1].headers)["retry-after"] == "60"
    assert admission.sender(b"Bearer x", "10.0.0.2") is UNKNOWN_TOKEN
    assert admission.sender(None, "10.0.0.1") is NO_TOKEN
    assert isinstance(admission.sender(b"Bearer t0ken", "10.0.0.1"), Sender)
    now_s = 161.0
    assert admission.sender(b"Bearer x", "10.0.0.1") is UNKNOWN_TOKEN


def test_token_that_was_removed_is_unknown() -> None:
    admission = Admission(_senders(ENTRY))
    assert isinstance(admission.sender(b"Bearer t0ken", ""), Sender)
    admission.senders = _senders()
    assert admission.sender(b"Bearer t0ken", "") is UNKNOWN_TOKEN


def test_addresses_of_guesses_are_bounded() -> None:
    guesses = Guesses()
    for number in range(10_000):
        guesses.wait_s(f"a{number}", 0.0)
    assert len(guesses._counts) <= 4096


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        (None, ["it is empty; write [] for no tokens"]),
        ([], []),
        ([ENTRY], []),
        ({}, ["it is not a list of tokens"]),
        (["x"], ["token 1: it is not a mapping"]),
        ([{**ENTRY, "token": "t"}], ["token 1: token is not a known key; use name, sha256, channels, brokers"]),
        ([{**ENTRY, "name": ""}], ["token 1: it has no name"]),
        ([{**ENTRY, "name": 1}], ["token 1: it has no name"]),
        ([{**ENTRY, "sha256": "t0ken"}], ["token 1: its sha256 is not 64 hexadecimal digits"]),
        ([ENTRY, ENTRY], ["token 2: its sha256 is the same as that of an earlier token"]),
        ([{**ENTRY, "channels": "a/b"}], ["token 1: channels is not a list"]),
        ([{**ENTRY, "brokers": ["b"]}], ["token 1: 'b' of brokers is not NAMESPACE/NAME or NAMESPACE/*"]),
        ([{**ENTRY, "brokers": ["*/b"]}], ["token 1: '*/b' of brokers is not NAMESPACE/NAME or NAMESPACE/*"]),
    ],
)
def test_problems_of_a_tokens_file_are_named(entries: Any, problems: list[str]) -> None:
    assert parse_tokens(entries)[1] == problems
